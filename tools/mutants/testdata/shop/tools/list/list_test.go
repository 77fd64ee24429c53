package list

import "testing"

func TestLength(t *testing.T) { Length() }
