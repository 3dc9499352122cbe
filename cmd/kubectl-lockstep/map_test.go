package main

import (
	"encoding/json"
	"net/url"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockstep-dev/lockstep/cmd/kubectl-lockstep/fleetmap"
	"github.com/lockstep-dev/lockstep/test/check"
)

func nodeNamed(name string) corev1.Node {
	return corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.NodeStatus{
		Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
	}}
}

func podNamed(name, node string, labels map[string]string, resources corev1.ResourceList) corev1.Pod {
	return corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}, Spec: corev1.PodSpec{
		NodeName: node, Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: resources}}},
	}}
}

// GPUs that pods without a Volcano Job have are not free, and other pods of that kind do not count.
func TestTheMapShowsWhoUsesANode(t *testing.T) {
	t.Setenv("KUBECONFIG", "/dev/null")
	gpus := corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("1")}
	s := &server{objects: map[string]any{
		"/api/v1/nodes": corev1.NodeList{TypeMeta: metav1.TypeMeta{Kind: "NodeList", APIVersion: "v1"}, Items: []corev1.Node{
			nodeNamed("a-training"), nodeNamed("b-notebook"), nodeNamed("c-web"), nodeNamed("d-empty"),
		}},
		"/api/v1/pods": corev1.PodList{TypeMeta: metav1.TypeMeta{Kind: "PodList", APIVersion: "v1"}, Items: []corev1.Pod{
			podNamed("rank", "a-training", map[string]string{"volcano.sh/job-name": "llama-1"}, gpus),
			podNamed("notebook", "b-notebook", nil, corev1.ResourceList{"nvidia.com/mig-1g.10gb": resource.MustParse("1")}),
			podNamed("web", "c-web", nil, corev1.ResourceList{"cpu": resource.MustParse("1")}),
		}},
	}}
	address := s.serve(t, core)
	out, err := lockstep("map", "-o", "json", address)
	check.Equal(t, "error", nil, err)
	var report fleetmap.Report
	if err := json.Unmarshal([]byte(out), &report); err != nil {
		t.Fatal(err)
	}
	check.Equal(t, "nodes", []fleetmap.Node{{Name: "a-training", Used: true, GPUsUsed: 1}, {Name: "b-notebook", OthersGPUs: true, GPUsUsed: 1}, {Name: "c-web"}, {Name: "d-empty"}}, report.Nodes)
	check.Equal(t, "total", fleetmap.Counts{Nodes: 4, Free: 2, Used: 2}, report.Total)

	out, err = lockstep("map", address)
	check.Equal(t, "error", nil, err)
	for _, want := range []string{"0 HyperNodes, 4 nodes: 2 free, 2 in use.", "\n  #g..\n", "g GPUs in use by other pods", "Volcano is not installed in this cluster"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	query, err := url.ParseQuery(strings.TrimPrefix(s.asked[len(s.asked)-1], "/api/v1/pods?"))
	check.Equal(t, "error", nil, err)
	check.Equal(t, "pods", url.Values{
		"fieldSelector": {"spec.nodeName!=,status.phase!=Failed,status.phase!=Succeeded"}, "labelSelector": {"!pod-template-generation"}, "limit": {"500"},
	}, query)
}
