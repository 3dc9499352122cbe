package main

import (
	"context"
	"fmt"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lockstep-dev/lockstep/test/check"
)

// pagedNodes has so many nodes, and lists them as an API server does: in pages.
type pagedNodes struct {
	client.Client
	nodes, pages int
}

func (a *pagedNodes) List(_ context.Context, into client.ObjectList, options ...client.ListOption) error {
	var o client.ListOptions
	o.ApplyOptions(options)
	a.pages++
	list := into.(*corev1.NodeList)
	at, _ := strconv.Atoi(o.Continue)
	for ; at < a.nodes && len(list.Items) < int(o.Limit); at++ {
		list.Items = append(list.Items, corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint(at)}})
	}
	if at < a.nodes {
		list.Continue = strconv.Itoa(at)
	}
	return nil
}

func TestListsAreReadInPages(t *testing.T) {
	for nodes, pages := range map[int]int{0: 1, 1: 1, 500: 1, 501: 2, 1700: 4} {
		a := &pagedNodes{nodes: nodes}
		var visited []string
		check.Equal(t, "error", nil, (&cluster{Client: a}).Each(t.Context(), &corev1.NodeList{}, func(o runtime.Object) error {
			visited = append(visited, o.(*corev1.Node).Name)
			return nil
		}))
		check.Equal(t, fmt.Sprintf("pages of %d", nodes), pages, a.pages)
		check.Equal(t, "nodes", nodes, len(visited))
	}
}
