package agent

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/lockstep-dev/lockstep/health"
)

// configMap is a folder as the kubelet mounts one: links to a folder that a link names.
type configMap struct {
	*testing.T
	dir      string
	versions int
}

func (m *configMap) must(err error) {
	m.Helper()
	if err != nil {
		m.Fatal(err)
	}
}

// set replaces all files in one move.
func (m *configMap) set(files map[string]string) {
	m.Helper()
	m.versions++
	data := "..2026_" + string(rune('a'+m.versions))
	m.must(os.Mkdir(filepath.Join(m.dir, data), 0o700))
	for name, text := range files {
		m.must(os.WriteFile(filepath.Join(m.dir, data, name), []byte(text), 0o600))
		if _, err := os.Lstat(filepath.Join(m.dir, name)); err != nil {
			m.must(os.Symlink(filepath.Join("..data", name), filepath.Join(m.dir, name)))
		}
	}
	m.must(os.Symlink(data, filepath.Join(m.dir, "..data_tmp")))
	m.must(os.Rename(filepath.Join(m.dir, "..data_tmp"), filepath.Join(m.dir, "..data")))
	entries, err := os.ReadDir(m.dir)
	m.must(err)
	for _, e := range entries {
		if _, kept := files[e.Name()]; !kept && !strings.HasPrefix(e.Name(), "..") {
			m.must(os.Remove(filepath.Join(m.dir, e.Name())))
		}
	}
}

func TestOverrides(t *testing.T) {
	m := &configMap{T: t, dir: t.TempDir()}
	o := &Overrides{Dir: os.DirFS(m.dir)}
	off := func(id string) string { return "rows: [{id: \"" + id + "\", disabled: true}]" }
	defaults := health.Default()
	look := func(what string, refused string, disabled ...string) *health.Table {
		t.Helper()
		table, err := o.Table()
		if refused == "" && err != nil || refused != "" && (err == nil || !strings.Contains(err.Error(), refused)) {
			t.Errorf("%s: %v, want %q", what, err, refused)
		}
		var got []string
		for _, r := range table.Rows() {
			before, _ := defaults.Row(r.ID)
			if r.Disabled != before.Disabled {
				got = append(got, r.ID)
			}
		}
		if strings.Join(got, " ") != strings.Join(disabled, " ") {
			t.Errorf("%s: off are %v, want %v", what, got, disabled)
		}
		return table
	}
	empty := look("no files", "")
	if again := look("still none", ""); again != empty {
		t.Error("nothing changed, and the table is another one")
	}
	m.set(map[string]string{"a.yaml": off("202")})
	look("a file", "", "202")
	m.set(map[string]string{"a.yaml": off("202"), "b.yaml": off("nonsense")})
	look("a bad one beside it", `b.yaml: row 1 (nonsense)`, "202")
	look("it stays bad", `b.yaml: row 1 (nonsense)`, "202")
	m.set(map[string]string{"a.yaml": off("202"), "b.yaml": off("395")})
	look("it is mended", "", "395", "202")
	m.set(map[string]string{})
	look("all are gone", "")
	m.must(os.RemoveAll(m.dir))
	look("the folder is gone", "cannot be read")
}

// The sample is taken, and is the ConfigMap that the DaemonSet mounts.
func TestSample(t *testing.T) {
	read := func(path string) string {
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return string(raw)
	}
	sample := &corev1.ConfigMap{}
	if err := yaml.UnmarshalStrict([]byte(read("../../config/samples/health-policy.yaml")), sample); err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{}
	for name, text := range sample.Data {
		files[name] = []byte(text)
	}
	table, err := health.ParseOverrides(health.Default(), files)
	if err != nil {
		t.Fatal(err)
	}
	if r, ok := table.Row("150/hot"); !ok || r.Signal != "TooHot" {
		t.Error("the sample's new row is not in the table")
	}
	if !strings.Contains(read("../../config/agent/daemonset.yaml"), "configMap: {name: "+sample.Name+", optional: true}") ||
		!strings.Contains(read("../../config/agent/daemonset.yaml"), "\n  namespace: "+sample.Namespace+"\n") {
		t.Errorf("the DaemonSet does not mount %s/%s", sample.Namespace, sample.Name)
	}
}
