package main

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	scheduling "volcano.sh/apis/pkg/apis/scheduling/v1beta1"
	topologyv1alpha1 "volcano.sh/apis/pkg/apis/topology/v1alpha1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/test/check"
)

// smallCluster has one node with 8 GPUs, in a rack, and the queue default.
func smallCluster() map[string]any {
	node := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n0"}, Status: corev1.NodeStatus{Allocatable: corev1.ResourceList{
		"nvidia.com/gpu": resource.MustParse("8"), corev1.ResourcePods: resource.MustParse("110"),
	}}}
	rack := topologyv1alpha1.HyperNode{ObjectMeta: metav1.ObjectMeta{Name: "rack"}, Spec: topologyv1alpha1.HyperNodeSpec{
		Tier: 1, Members: []topologyv1alpha1.MemberSpec{{Type: "Node", Selector: topologyv1alpha1.MemberSelector{ExactMatch: &topologyv1alpha1.ExactMatch{Name: "n0"}}}},
	}}
	return map[string]any{
		theJobs:         jobIn("default", "llama", ""),
		"/api/v1/nodes": corev1.NodeList{TypeMeta: metav1.TypeMeta{Kind: "NodeList", APIVersion: "v1"}, Items: []corev1.Node{node}},
		"/apis/topology.volcano.sh/v1alpha1/hypernodes": topologyv1alpha1.HyperNodeList{
			TypeMeta: metav1.TypeMeta{Kind: "HyperNodeList", APIVersion: "topology.volcano.sh/v1alpha1"}, Items: []topologyv1alpha1.HyperNode{rack},
		},
		"/apis/scheduling.volcano.sh/v1beta1/queues/default": scheduling.Queue{
			TypeMeta: metav1.TypeMeta{Kind: "Queue", APIVersion: "scheduling.volcano.sh/v1beta1"}, ObjectMeta: metav1.ObjectMeta{Name: "default"},
		},
	}
}

// A job that could never start is created all the same: nodes and queues may come.
func TestSubmitWarnsOfWhatNeverFits(t *testing.T) {
	t.Setenv("KUBECONFIG", "/dev/null")
	volcano := []metav1.APIResourceList{core, product, resources("topology.volcano.sh/v1alpha1", "HyperNode"), resources("scheduling.volcano.sh/v1beta1", "Queue")}
	for name, tc := range map[string]struct {
		args []string
		want string
	}{
		"fits":           {[]string{"--gpus=8", "--tier=1"}, ""},
		"too many GPUs":  {[]string{"--gpus=16"}, "Warning: No node is large enough for a pod of task worker: it asks for 16 of nvidia.com/gpu, and no node has more than 8."},
		"no queue":       {[]string{"--queue=nope"}, "Warning: Queue nope does not exist: `kubectl get queues` lists those that do."},
		"tier too high":  {[]string{"--tier=7"}, "Warning: --tier 7 lets Volcano spread the gang over all nodes: the highest HyperNode is of tier 1."},
		"too many pods":  {[]string{"--gpus=8", "--tier=1", "--workers=2"}, "Warning: No HyperNode of tier 1 at most is large enough for the gang, even if it were empty. The largest is rack: it has room for 1 of the 2 pods of task worker that have to run together."},
		"nothing of GPU": {nil, ""},
	} {
		for _, dryRun := range []string{"none", "client", "server"} {
			t.Run(name+", "+dryRun, func(t *testing.T) {
				s := &server{objects: smallCluster()}
				address := s.serve(t, volcano...)
				streams, _, _, errOut := genericiooptions.NewTestIOStreams()
				c := newCommand(streams)
				c.SetArgs(append([]string{"submit", "llama", "--image=x", "--dry-run=" + dryRun, address}, tc.args...))
				check.Equal(t, "error", nil, c.Execute())
				check.Equal(t, "warning", tc.want, strings.Join(strings.Fields(errOut.String()), " "))
			})
		}
	}
}

// Who may not read nodes and queues is not told that there are none.
func TestSubmitComparesWithNothingThatItMayNotRead(t *testing.T) {
	t.Setenv("KUBECONFIG", "/dev/null")
	no := refusal(403, metav1.StatusReasonForbidden, "no")
	s := &server{objects: map[string]any{
		theJobs: jobIn("default", "llama", v1alpha1.StateQueued), "/api/v1/nodes": no, "/apis/scheduling.volcano.sh/v1beta1/queues/default": no,
	}}
	address := s.serve(t, core, product, resources("scheduling.volcano.sh/v1beta1", "Queue"))
	streams, _, _, errOut := genericiooptions.NewTestIOStreams()
	c := newCommand(streams)
	c.SetArgs([]string{"submit", "llama", "--image=x", "--gpus=99", address})
	check.Equal(t, "error", nil, c.Execute())
	check.Equal(t, "warning", "", errOut.String())
}
