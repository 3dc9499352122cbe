// What is in the cluster, to tell what an installation leaves behind.

package install

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// passing are kinds that come and go with what is no part of Lockstep: what happened, heartbeats, and copies of other objects.
var passing = []string{"Event", "Lease", "EndpointSlice", "ComponentStatus"}

// objects are all objects of the cluster, by kind, namespace and name. What is written in those that Lockstep has left a mark in, such as a
// taint or a condition, is in the name, too.
func (s *site) objects(ctx context.Context) (map[string]bool, error) {
	found := map[string]bool{}
	clients, err := discovery.NewDiscoveryClientForConfig(s.RESTConfig())
	if err != nil {
		return nil, err
	}
	lists, err := clients.ServerPreferredResources()
	if err != nil {
		return nil, err
	}
	for _, list := range lists {
		for _, resource := range list.APIResources {
			if !slices.Contains(resource.Verbs, "list") || slices.Contains(passing, resource.Kind) {
				continue
			}
			items := &unstructured.UnstructuredList{}
			items.SetAPIVersion(list.GroupVersion)
			items.SetKind(resource.Kind + "List")
			if err := s.Client().List(ctx, items); err != nil {
				return nil, fmt.Errorf("listing %s: %w", resource.Name, err)
			}
			for _, item := range items.Items {
				found[nameOf(&item)] = true
			}
		}
	}
	return found, nil
}

func nameOf(item *unstructured.Unstructured) string {
	name := item.GetKind() + " " + client.ObjectKeyFromObject(item).String()
	item.SetManagedFields(nil)
	raw, err := json.Marshal(item)
	if err == nil && strings.Contains(string(raw), "lockstep.dev") {
		var marks []string
		for word := range strings.FieldsFuncSeq(string(raw), func(r rune) bool { return strings.ContainsRune(`"{}[]:,`, r) }) {
			if strings.Contains(word, "lockstep.dev") && !slices.Contains(marks, word) {
				marks = append(marks, word)
			}
		}
		name += " with " + strings.Join(marks, ", ")
	}
	return name
}
