// What holds for pages as such: their links lead somewhere, and users' pages link the words of the glossary.

package readme

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
)

const root = "../.."

var (
	fences   = regexp.MustCompile("(?ms)^[> ]*```.*?^[> ]*```")
	comments = regexp.MustCompile(`(?s)<!--.*?-->`)
	written  = regexp.MustCompile(`(?s)<!-- [\w:]+:begin -->.*?<!-- [\w:]+:end -->`)
	code     = regexp.MustCompile("`(?:[^`\n]|\n[^`\n])+`") // within a paragraph
	links    = regexp.MustCompile(`\[([^\[\]]*)\]\(([^()\s]+)\)`)
	headings = regexp.MustCompile(`(?m)^#+ .*$`)
	// The back-off of the glossary is the job's.
	kubelets = regexp.MustCompile(`kubelet's back-off`)
)

// pages are the Markdown files of the repository, by their path from its root.
func pages(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && path != root && (strings.HasPrefix(entry.Name(), ".") || entry.Name() == "bin"):
			return filepath.SkipDir
		case filepath.Ext(path) != ".md":
			return nil
		}
		raw, err := os.ReadFile(path)
		all[strings.TrimPrefix(filepath.ToSlash(path), root+"/")] = string(raw)
		return err
	})
	if err != nil || len(all) == 0 {
		t.Fatalf("%d pages: %v", len(all), err)
	}
	return all
}

// blank replaces what an expression finds by spaces, so that positions stay.
func blank(text string, expressions ...*regexp.Regexp) string {
	for _, e := range expressions {
		text = e.ReplaceAllStringFunc(text, func(found string) string { return strings.Repeat(" ", len(found)) })
	}
	return text
}

// anchors are the fragments of a page's headings, as GitHub makes them.
func anchors(page string) map[string]bool {
	all := map[string]bool{}
	for _, heading := range headings.FindAllString(blank(page, fences), -1) {
		heading = links.ReplaceAllString(strings.TrimSpace(strings.TrimLeft(heading, "#")), "$1")
		anchor := strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case unicode.IsLetter(r), unicode.IsDigit(r), r == '-', r == '_':
				return unicode.ToLower(r)
			}
			return -1
		}, heading)
		first := anchor
		for i := 1; all[anchor]; i++ {
			anchor = fmt.Sprintf("%s-%d", first, i)
		}
		all[anchor] = true
	}
	return all
}

func TestLinksLeadSomewhere(t *testing.T) {
	all := pages(t)
	for name, page := range all {
		for _, link := range links.FindAllStringSubmatch(blank(page, fences, code), -1) {
			if err := follow(all, name, link[2]); err != nil {
				t.Errorf("%s: the link %s: %v", name, link[2], err)
			}
		}
	}
}

// follow looks for the file, and the heading, that a link names.
func follow(all map[string]string, from, link string) error {
	if strings.Contains(link, "://") || strings.HasPrefix(link, "mailto:") {
		return nil
	}
	path, anchor, _ := strings.Cut(link, "#")
	target := from
	if path != "" {
		target = filepath.ToSlash(filepath.Join(filepath.Dir(from), path))
		if _, err := os.Stat(filepath.Join(root, target)); err != nil {
			return err
		}
	}
	if anchor != "" && !anchors(all[target])[anchor] {
		return fmt.Errorf("%s has no heading #%s", target, anchor)
	}
	return nil
}

func TestFollow(t *testing.T) {
	all := map[string]string{"docs/a.md": "# A\n```\n# no\n```\n## `B` and [C](#a), 1\n## A\n"}
	for link, found := range map[string]bool{
		"#b-and-c-1": true, "#a-1": true, "https://a.example/#b": true, "../README.md": true,
		"#no": false, "#c": false, "../nothing.md": false, "../README.md#a": false,
	} {
		if err := follow(all, "docs/a.md", link); (err == nil) != found {
			t.Errorf("%s: %v", link, err)
		}
	}
}

// everyday are terms of the glossary that pages also use in another sense, as a step of the training.
var everyday = []string{"charge", "class", "step"}

// glossary has the terms that docs/concepts.md defines.
func glossary(t *testing.T, concepts string) []string {
	t.Helper()
	_, table, found := strings.Cut(concepts, "## Glossary\n")
	var terms []string
	for line := range strings.Lines(table) {
		cell, _, _ := strings.Cut(strings.TrimPrefix(line, "| "), " |")
		for term := range strings.SplitSeq(cell, ", ") {
			if strings.HasPrefix(line, "| ") && term != "term" && term != "---" && !slices.Contains(everyday, term) {
				terms = append(terms, term)
			}
		}
	}
	if !found || len(terms) < 10 {
		t.Fatalf("docs/concepts.md defines %d terms", len(terms))
	}
	return terms
}

// unexplained returns how a page first uses a term, where that is no link to the glossary or to a section about the term. A page with a
// heading about the term explains it itself.
func unexplained(page, term string) string {
	word := regexp.MustCompile(`(?i)\b` + regexp.QuoteMeta(term) + `s?\b`)
	text := blank(page, fences, written, comments, code, kubelets)
	if word.MatchString(strings.Join(headings.FindAllString(text, -1), "\n")) {
		return ""
	}
	for _, link := range links.FindAllStringSubmatchIndex(text, -1) { // an address is no use of a word
		text = text[:link[4]] + strings.Repeat("\x00", link[5]-link[4]) + text[link[5]:]
	}
	at := word.FindStringIndex(text)
	if at == nil {
		return ""
	}
	for _, link := range links.FindAllStringSubmatchIndex(text, -1) {
		target := page[link[4]:link[5]]
		if link[2] <= at[0] && at[1] <= link[3] && (strings.Contains(target, "concepts.md") || word.MatchString(target)) {
			return ""
		}
	}
	return strings.ToValidUTF8(strings.Join(strings.Fields(page[max(0, at[0]-40):min(len(page), at[1]+20)]), " "), "")
}

func TestTheGlossaryIsLinkedAtTheFirstUse(t *testing.T) {
	all := pages(t)
	terms := glossary(t, all["docs/concepts.md"])
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if name != "README.md" && (filepath.Dir(name) != "docs" || name == "docs/concepts.md") {
			continue
		}
		for _, term := range terms {
			if use := unexplained(all[name], term); use != "" {
				t.Errorf("%s uses %q first without a link to the glossary: ...%s...", name, term, use)
			}
		}
	}
}

func TestUnexplained(t *testing.T) {
	for page, explained := range map[string]bool{
		"Nothing of it.": true,
		"A [home](concepts.md#glossary), and home again.":      true,
		"It goes [home](policies.md#home).":                    true,
		"`home`\n```\nhome\n```\n[x](home.md)":                 true,
		"## Home\n\nA home.":                                   true,
		"A home, and a [home](concepts.md#glossary).":          false,
		"It is [at home](else.md).":                            false,
		"[x](home.md) Homes.":                                  false,
		"<!-- b:begin -->\nhome\n<!-- b:end -->\nThen a home.": false,
	} {
		if use := unexplained(page, "home"); (use == "") != explained {
			t.Errorf("%q: %q", page, use)
		}
	}
}
