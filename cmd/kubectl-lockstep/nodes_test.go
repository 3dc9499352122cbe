package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/cmd/kubectl-lockstep/fleetmap"
	"github.com/lockstep-dev/lockstep/test/check"
)

// A node of 8 GPUs has failed, and two of them are in use. Volcano's HyperNodes are not served.
func TestNodesReadsHealthAndGPUs(t *testing.T) {
	t.Setenv("KUBECONFIG", "/dev/null")
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	ill := nodeNamed("ill")
	ill.Status.Allocatable = corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("8"), "cpu": resource.MustParse("64")}
	two := corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("2"), "cpu": resource.MustParse("4")}
	h := healthOf("ill", metav1.NewTime(at.Add(-time.Minute)))
	h.Status.Verdict = &v1alpha1.HealthVerdict{State: v1alpha1.HealthStateFailed, Since: metav1.NewTime(at.Add(-time.Minute))}
	objects := map[string]any{
		"/api/v1/nodes": corev1.NodeList{TypeMeta: metav1.TypeMeta{Kind: "NodeList", APIVersion: "v1"}, Items: []corev1.Node{ill, nodeNamed("well")}},
		"/api/v1/pods":  corev1.PodList{TypeMeta: metav1.TypeMeta{Kind: "PodList", APIVersion: "v1"}, Items: []corev1.Pod{podNamed("rank", "ill", nil, two)}},
		theHealths:      v1alpha1.NodeHealthList{TypeMeta: metav1.TypeMeta{Kind: "NodeHealthList", APIVersion: "lockstep.dev/v1alpha1"}, Items: []v1alpha1.NodeHealth{h}},
	}
	s := &server{now: at, objects: objects}
	address := s.serve(t, core, product)
	out, err := lockstep("nodes", "--unhealthy", address)
	check.Equal(t, "error", nil, err)
	if !strings.HasPrefix(out, `HYPERNODE  NODE  READY  STATE   SINCE  QUARANTINE  GPUS  HELD-FOR
-          ill   yes    Failed  60s    -           2/8   -
  XID79 of node (Failed, 60s)
The HyperNodes could not be read: Volcano is not installed`) {
		t.Errorf("printed:\n%s", out)
	}
	out, err = lockstep("nodes", address, "-o", "json")
	check.Equal(t, "error", nil, err)
	var nodes fleetmap.Nodes
	check.Equal(t, "error", nil, json.Unmarshal([]byte(out), &nodes))
	check.Equal(t, "nodes", 2, len(nodes.Nodes))
	check.Equal(t, "state", v1alpha1.HealthStateFailed, nodes.Nodes[0].State)

	objects[theHealths] = refusal(403, metav1.StatusReasonForbidden, "nodehealths is forbidden")
	out, err = lockstep("nodes", address)
	check.Equal(t, "error without a right", nil, err)
	if unwrapped := strings.Join(strings.Fields(out), " "); !strings.Contains(unwrapped, "The NodeHealths could not be read, so the health of nodes is not known: nodehealths is forbidden. The ClusterRole lockstep-explain") {
		t.Errorf("without a right:\n%s", out)
	}
	_, err = lockstep("nodes", "rack-0", address)
	if err == nil || !strings.HasPrefix(err.Error(), `there is no HyperNode "rack-0": The HyperNodes could not be read`) {
		t.Errorf("of no HyperNode: %v", err)
	}
}

// Where there are no nodes, none is listed, and that is no error.
func TestAClusterWithoutNodes(t *testing.T) {
	t.Setenv("KUBECONFIG", "/dev/null")
	s := &server{objects: map[string]any{"/api/v1/nodes": corev1.NodeList{TypeMeta: metav1.TypeMeta{Kind: "NodeList", APIVersion: "v1"}}}}
	address := s.serve(t, core, product)
	for _, args := range [][]string{{"nodes"}, {"nodes", "--unhealthy"}} {
		out, err := lockstep(append(args, address)...)
		check.Equal(t, "error", nil, err)
		check.Equal(t, "listed", "", out)
	}
	_, err := lockstep("map", address)
	check.Equal(t, "map", true, err != nil && err.Error() == "the cluster has no nodes")
}
