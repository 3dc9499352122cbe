package alerts

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

func TestMap(t *testing.T) {
	// entry is what an alert A of node n1 becomes, but for the change.
	entry := func(change ...func(*Change)) Change {
		c := Change{Nodes: []string{"n1"}, Report: v1alpha1.HealthReport{
			Source: Source, Entity: "node", Signal: "A", State: v1alpha1.HealthStateDegraded, Since: metav1.NewTime(t0), Message: "A",
		}}
		for _, f := range change {
			f(&c)
		}
		return c
	}
	entity := func(name string) func(*Change) { return func(c *Change) { c.Report.Entity = name } }
	for name, c := range map[string]struct {
		labels map[string]string
		want   Change
	}{
		"a node":                          {map[string]string{"node": "n1"}, entry()},
		"the exporter's hostname":         {map[string]string{"hostname": "n1"}, entry()},
		"the exporter's earlier Hostname": {map[string]string{"Hostname": "n1"}, entry()},
		"several names, in order": {map[string]string{"kubernetes_node": "n4", "Hostname": "n3", "hostname": "n2", "node": "n1"},
			entry(func(c *Change) { c.Nodes = []string{"n1", "n2", "n3", "n4"} })},
		"a GPU":                        {map[string]string{"node": "n1", "UUID": "GPU-a", "gpu": "3"}, entry(entity("gpu/GPU-a"))},
		"a GPU by gpu_uuid":            {map[string]string{"node": "n1", "gpu_uuid": "GPU-a"}, entry(entity("gpu/GPU-a"))},
		"a GPU by its index alone":     {map[string]string{"node": "n1", "gpu": "3"}, entry(entity("gpu/index-3"))},
		"a link of a GPU":              {map[string]string{"node": "n1", "gpu_uuid": "GPU-a", "nvlink": "4"}, entry(entity("nvlink/GPU-a/4"))},
		"a switch":                     {map[string]string{"node": "n1", "nvswitch": "2", "nvlink": "4"}, entry(entity("switch/2"))},
		"an entity that the rule says": {map[string]string{"node": "n1", "UUID": "GPU-a", LabelEntity: "nic/mlx5_0/1"}, entry(entity("nic/mlx5_0/1"))},
		"a signal that the rule says":  {map[string]string{"node": "n1", LabelSignal: "XID79"}, entry(func(c *Change) { c.Report.Signal = "XID79" })},
		"failed":                       {map[string]string{"node": "n1", LabelSeverity: "failed"}, entry(func(c *Change) { c.Report.State = v1alpha1.HealthStateFailed })},
		"degraded":                     {map[string]string{"node": "n1", LabelSeverity: "degraded"}, entry()},
		"critical, for people":         {map[string]string{"node": "n1", "severity": "critical"}, entry()},
		"the pod that holds it":        {map[string]string{"node": "n1", "exported_namespace": "ns", "exported_pod": "p", "namespace": "m", "pod": "exporter"}, entry(func(c *Change) { c.Pod, c.Holder = "ns/p", true })},
		"a pod that may be any":        {map[string]string{"node": "n1", "namespace": "ns", "pod": "p"}, entry(func(c *Change) { c.Pod = "ns/p" })},
		"half a pod":                   {map[string]string{"node": "n1", "pod": "p"}, entry()},
	} {
		t.Run(name, func(t *testing.T) {
			c.labels["alertname"] = "A"
			got, err := Map(Alert{Status: firing, Labels: c.labels, StartsAt: t0.Add(300 * time.Millisecond)})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestMapRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		labels map[string]string
		why    string
	}{
		"no labels":                    {nil, "no node is named"},
		"no node":                      {map[string]string{"alertname": "A", "instance": "10.0.0.1:9400"}, "one of the labels node, hostname, Hostname, kubernetes_node"},
		"no name":                      {map[string]string{"node": "n1"}, "label lockstep_signal or alertname, is missing"},
		"a signal too long":            {map[string]string{"node": "n1", "alertname": strings.Repeat("ä", 64)}, "64 letters, at most 63"},
		"a signal that is not printed": {map[string]string{"node": "n1", "alertname": "A\u0085"}, "cannot be printed"},
		"an entity too long":           {map[string]string{"node": "n1", "alertname": "A", "UUID": strings.Repeat("x", 250)}, "254 letters, at most 253"},
		"a severity of others":         {map[string]string{"node": "n1", "alertname": "A", LabelSeverity: "critical"}, `the label lockstep_severity is "critical"`},
		"a pod that is none":           {map[string]string{"node": "n1", "alertname": "A", "exported_namespace": "ns", "exported_pod": "../p"}, "no pod's name"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := Map(Alert{Status: firing, Labels: c.labels, StartsAt: t0}); err == nil || !strings.Contains(err.Error(), c.why) {
				t.Errorf("error %v, want %q", err, c.why)
			}
		})
	}
}

func TestMessageIsCutBetweenLetters(t *testing.T) {
	for name, c := range map[string]struct {
		annotations map[string]string
		want        string
	}{
		"description first":       {map[string]string{"description": "d", "summary": "s"}, "d"},
		"then summary":            {map[string]string{"summary": "s", "message": "m"}, "s"},
		"then message":            {map[string]string{"message": "m"}, "m"},
		"then the name":           {nil, "A"},
		"lines become one":        {map[string]string{"summary": "a\nb\u0085c"}, "a b c"},
		"long, of double width":   {map[string]string{"summary": strings.Repeat("ä", 1025)}, strings.Repeat("ä", 1023) + "…"},
		"as long as it may be":    {map[string]string{"summary": strings.Repeat("ä", 1024)}, strings.Repeat("ä", 1024)},
		"broken letters, decoded": {map[string]string{"summary": "a\ufffd"}, "a\ufffd"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := message(Alert{Labels: map[string]string{"alertname": "A"}, Annotations: c.annotations}); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}
