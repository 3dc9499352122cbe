// Whoever is woken by an alert knows what to do, and where to read on.

package prometheus

import (
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

// README.md lists every alert.
func TestThePageListsTheAlerts(t *testing.T) {
	page, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		rulesOf(t, name).each(func(r *rule) {
			if r.Alert != "" && !strings.Contains(string(page), "`"+r.Alert+"`") {
				t.Errorf("README.md does not name %s", r.Alert)
			}
		})
	}
}
