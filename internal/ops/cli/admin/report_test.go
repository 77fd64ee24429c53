package admin

import (
	"strings"
	"testing"
	"time"
)

// TestNoFormulasInReports checks that a name that a spreadsheet would run as a formula is only text
// in the CSV of a report.
func TestNoFormulasInReports(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 2, 13, 0, 0, 0, time.UTC)
	for name, want := range map[string]string{
		`=HYPERLINK("http://evil.example";"x")`: `"'=HYPERLINK(""http://evil.example"";""x"")"`,
		"+1":                                    "'+1", "-1": "'-1", "@SUM(A1)": "'@SUM(A1)", "\t=1": "'\t=1", "ana": "ana", "a=1": "a=1",
	} {
		row := usageRow{}
		row.Username, row.UserID, row.Market, row.Level, row.First, row.Last = name, "=id", "BYMA", "trades", at, at
		var out strings.Builder
		if err := writeUsageCSV(&out, &usageReport{month: "2026-11"}, []usageRow{row}, nil); err != nil {
			t.Fatal(err)
		}
		_, text, _ := strings.Cut(out.String(), "\n")
		if !strings.HasPrefix(text, "2026-11,'=id,"+want+",BYMA,") {
			t.Errorf("%q is written as %s", name, text)
		}
	}
}
