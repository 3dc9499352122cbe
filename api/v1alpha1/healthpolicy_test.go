// The HealthPolicy as the API server takes it.

package v1alpha1

import (
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

const emptyPolicy = `
apiVersion: lockstep.dev/v1alpha1
kind: HealthPolicy
metadata: {name: cluster}
`

func policyServer(t *testing.T) *apiServer {
	t.Helper()
	server, err := serverOf(policyCRD)
	if err != nil {
		t.Fatal(err)
	}
	return server
}

func TestHealthPolicyDefaults(t *testing.T) {
	server := policyServer(t)
	obj := server.prepare(t, emptyPolicy)
	if errs := server.Create(obj); len(errs) > 0 {
		t.Error(errs.ToAggregate())
	}
	var want map[string]any
	if err := yaml.Unmarshal([]byte(`
silentAfterSeconds: 900
quarantine: {enabled: true, wellSeconds: 600, lemon: {failures: 3, windowSeconds: 604800}}
breaker:
  cluster: {percent: 10, count: 2, windowSeconds: 3600}
  hyperNode: {percent: 25, count: 2, windowSeconds: 3600}
  job: {percent: 25, count: 2, windowSeconds: 3600}
`), &want); err != nil {
		t.Fatal(err)
	}
	asYAML := func(v any) string {
		out, err := yaml.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	if diff := cmp.Diff(asYAML(want), asYAML(obj["spec"])); diff != "" {
		t.Errorf("defaults (-want +got):\n%s", diff)
	}
}

func TestRefusesHealthPolicy(t *testing.T) {
	server := policyServer(t)
	for name, tc := range map[string]struct {
		set         set
		field, want string
	}{
		"another name":           {set{"metadata.name": "mine"}, "metadata", "its name is cluster"},
		"more than all":          {set{"spec.breaker": "{cluster: {percent: 101}}"}, "spec.breaker.cluster.percent", "less than or equal to 100"},
		"no percent":             {set{"spec.breaker": "{job: {count: 3}}"}, "spec.breaker.job.percent", "Required"},
		"no window":              {set{"spec.breaker": "{hyperNode: {percent: 1, windowSeconds: 0}}"}, "spec.breaker.hyperNode.windowSeconds", "greater than or equal to 1"},
		"a state that is none":   {set{"spec.nodeConditions": "[{type: GPUMissing, state: Unknown}]"}, "spec.nodeConditions[0].state", "Failed"},
		"a status that is none":  {set{"spec.nodeConditions": "[{type: GPUMissing, badStatus: Unknown}]"}, "spec.nodeConditions[0].badStatus", "True"},
		"a type twice":           {set{"spec.nodeConditions": "[{type: GPUMissing}, {type: GPUMissing}]"}, "spec.nodeConditions[1]", "Duplicate"},
		"a condition of our own": {set{"spec.nodeConditions": "[{type: lockstep.dev/Healthy}]"}, "spec.nodeConditions[0].type", "Lockstep's own"},
		"the kubelet's readiness": {set{"spec.nodeConditions": "[{type: Ready, badStatus: \"False\"}]"}, "spec.nodeConditions[0].type",
			"NodeNotReady"},
	} {
		t.Run(name, func(t *testing.T) {
			wantError(t, server.Create(server.prepare(t, tc.set.apply(t, emptyPolicy))), tc.field, tc.want)
		})
	}
}

// The sample writes the defaults out.
func TestHealthPolicySample(t *testing.T) {
	raw, err := os.ReadFile("../../config/samples/healthpolicy.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var sample HealthPolicy
	if err := yaml.UnmarshalStrict(raw, &sample); err != nil {
		t.Fatal(err)
	}
	server := policyServer(t)
	got, want := server.prepare(t, string(raw)), server.prepare(t, emptyPolicy)
	if errs := server.Create(got); len(errs) > 0 {
		t.Error(errs.ToAggregate())
	}
	delete(got["spec"].(map[string]any), "nodeConditions")
	if diff := cmp.Diff(want["spec"], got["spec"]); diff != "" {
		t.Errorf("spec (-default +sample):\n%s", diff)
	}
}
