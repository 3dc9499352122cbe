// Each alert says what to do, and has a section of docs/runbooks.md.

package prometheus

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const repository = "https://github.com/lockstep-dev/lockstep/blob/main/"

// GitHub makes anchors of headings in lower case, without punctuation and with hyphens for spaces.
var (
	heading     = regexp.MustCompile(`(?m)^#+ (.+)$`)
	punctuation = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

func TestAlertsOfLockstepSayWhatToDo(t *testing.T) {
	rulesOf(t, "lockstep.yaml").each(func(r *rule) {
		for _, name := range []string{"summary", "description", "runbook_url"} {
			if r.Annotations[name] == "" {
				t.Errorf("%s has no %s", r.Alert, name)
			}
		}
		page, anchor, _ := strings.Cut(strings.TrimPrefix(r.Annotations["runbook_url"], repository), "#")
		if page != "docs/runbooks.md" || anchor != strings.ToLower(r.Alert) {
			t.Errorf("%s: its runbook is %s", r.Alert, r.Annotations["runbook_url"])
		}
		if !hasHeading(t, page, anchor) {
			t.Errorf("%s: no heading of %s is #%s", r.Alert, page, anchor)
		}
	})
}

func hasHeading(t *testing.T, page, anchor string) bool {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", page))
	if err != nil {
		t.Error(err)
	}
	for _, found := range heading.FindAllStringSubmatch(string(text), -1) {
		slug := punctuation.ReplaceAllString(strings.ToLower(found[1]), "")
		if strings.ReplaceAll(slug, " ", "-") == anchor {
			return true
		}
	}
	return false
}

// The runbooks have a section for each alert about Lockstep, and README.md lists those about GPUs.
func TestThePagesListTheAlerts(t *testing.T) {
	for name, listed := range map[string]struct{ page, format string }{
		"gpu.yaml":      {"README.md", "`%s`"},
		"lockstep.yaml": {"../../docs/runbooks.md", "### %s\n"},
	} {
		page, err := os.ReadFile(listed.page)
		if err != nil {
			t.Fatal(err)
		}
		rulesOf(t, name).each(func(r *rule) {
			if r.Alert != "" && !strings.Contains(string(page), fmt.Sprintf(listed.format, r.Alert)) {
				t.Errorf("%s does not list %s", listed.page, r.Alert)
			}
		})
	}
}
