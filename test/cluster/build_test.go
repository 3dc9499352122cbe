package cluster

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lockstep-dev/lockstep/test/check"
)

// A cluster is started without the tools, half of what there is to build.
func TestWhatIsBuilt(t *testing.T) {
	plane := []string{Etcd, APIServer, ControllerManager, VolcanoScheduler, VolcanoControllerManager, VolcanoWebhookManager, KWOK}
	for name, tc := range map[string]struct {
		tools []string
		want  []string
	}{
		"a control plane": {nil, plane},
		"two tools":       {[]string{Promtool, Kubectl}, append(slices.Clone(plane), Promtool, Kubectl)},
	} {
		wanted, err := programs(tc.tools)
		check.Equal(t, name+": error", nil, err)
		var names []string
		for _, b := range wanted {
			names = append(names, b.name)
		}
		check.Equal(t, name, tc.want, names)
	}
	if _, err := programs([]string{"docker"}); err == nil {
		t.Error("a tool that is not there is no error")
	}
}

// The webhooks of a cluster are those of Volcano's chart, which only Helm could render.
func TestWebhooksAreThoseOfTheChart(t *testing.T) {
	want, err := VolcanoChart(t.Context(), "", "webhooks.yaml")
	if err != nil {
		t.Fatal(err)
	}
	built, err := Build(t.Context(), t.Output())
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := os.ReadFile(filepath.Join(built.Assets, webhookFile))
	if err != nil {
		t.Fatal(err)
	}
	got, err := parseObjects("Volcano", manifest)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error("-chart +cluster:\n" + diff)
	}
}
