package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/lockstep-dev/lockstep/test/check"
)

// kubernetes is an API server that serves the core API alone.
func kubernetes(t *testing.T) *rest.Config {
	answers := map[string]any{
		"/api":  metav1.APIVersions{Versions: []string{"v1"}},
		"/apis": metav1.APIGroupList{Groups: []metav1.APIGroup{{Name: "policy", Versions: []metav1.GroupVersionForDiscovery{{GroupVersion: "policy/v1", Version: "v1"}}}}},
		"/api/v1": metav1.APIResourceList{GroupVersion: "v1", APIResources: []metav1.APIResource{
			{Name: "pods", Kind: "Pod", Namespaced: true}, {Name: "nodes", Kind: "Node"},
		}},
		"/apis/policy/v1": metav1.APIResourceList{GroupVersion: "policy/v1", APIResources: []metav1.APIResource{{Name: "poddisruptionbudgets", Kind: "PodDisruptionBudget", Namespaced: true}}},
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer, ok := answers[r.URL.Path]
		if !ok {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(answer); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(server.Close)
	return &rest.Config{Host: server.URL}
}

// The CRDs of Volcano, of Lockstep and of NVSentinel may be installed after the manager, and after the drainer: these say what they wait for.
func TestStartsBeforeItsKindsAreInstalled(t *testing.T) {
	for name, tc := range map[string]struct {
		options *options
		lacks   []string
	}{
		"manager": {&options{drainRequests: "nvsentinel"}, []string{
			"TrainingJob.lockstep.dev", "NodeHealth.lockstep.dev", "HealthPolicy.lockstep.dev", "Job.batch.volcano.sh", "Command.bus.volcano.sh",
			"PodGroup.scheduling.volcano.sh", "Queue.scheduling.volcano.sh", "HyperNode.topology.volcano.sh", "DrainRequest.nvsentinel.nvidia.com",
		}},
		"drainer": {&options{drainRequests: "nvsentinel", drainer: true}, []string{"DrainRequest.nvsentinel.nvidia.com"}},
	} {
		t.Run(name, func(t *testing.T) {
			runs := tc.options.part()
			mgr, err := newManager(kubernetes(t), tc.options, runs)
			if err != nil {
				t.Fatal(err)
			}
			lacks, err := (&startup{mgr: mgr, kinds: runs.kinds}).lacks()
			if err != nil {
				t.Fatal(err)
			}
			check.Equal(t, "lacks", tc.lacks, lacks)
		})
	}
}
