module github.com/ruedahq/rueda/tools/mutants

go 1.26.0
