// Cordons: which pods NVSentinel has leave the nodes that it has cordoned.

package nvsentinel

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// What fault-quarantine has on a node (NVSentinel, fault-quarantine/pkg/common).
const (
	// AnnotationCordoned is on one that it has cordoned, with valueTrue, by the update that cordons it; or would have cordoned, in a dry run.
	AnnotationCordoned = "quarantineHealthEventIsCordoned"
	// annotationCordonedBefore is on one that somebody else had cordoned before, with valueTrue, and annotationDryRun on one that it has not cordoned.
	// The key of the latter follows from the name of its constant, QuarantineHealthEventDryRunAnnotationKey, as those of the others do.
	annotationCordonedBefore = "quarantineHealthEventCordonPreExisting"
	annotationDryRun         = "quarantineHealthEventDryRun"
	valueTrue                = "True"
)

// Annotations are those of a node that Cordons reads.
var Annotations = []string{AnnotationCordoned, annotationCordonedBefore, annotationDryRun}

// indexNode are the DrainRequests for a node.
const indexNode = "spec.nodeName"

// Requests are the DrainRequests of one namespace.
type Requests struct {
	// Reader is of a cache that keeps these alone, and has their index: see InNamespace and AddIndex.
	Reader client.Reader
}

// AddIndex adds the cache's index of DrainRequests.
func AddIndex(ctx context.Context, indexer client.FieldIndexer) error {
	err := indexer.IndexField(ctx, New(), indexNode, func(o client.Object) []string { return []string{NodeOf(o)} })
	if err != nil {
		return fmt.Errorf("index DrainRequests by their nodes: %w", err)
	}
	return nil
}

// InNamespace has a cache keep the DrainRequests of one namespace only: in others tenants may create them, and have the pods of others moved, and evicted.
func InNamespace(namespace string) cache.ByObject {
	return cache.ByObject{Namespaces: map[string]cache.Config{namespace: {}}}
}

// NodeOf is the node of a DrainRequest; empty where it has none.
func NodeOf(request client.Object) string {
	node, _, _ := unstructured.NestedString(request.(*unstructured.Unstructured).Object, "spec", "nodeName")
	return node
}

// Cordons reports whether NVSentinel alone has cordoned a node: its DrainRequests say which pods leave it.
func Cordons(node *corev1.Node) bool {
	return node.Spec.Unschedulable && node.Annotations[AnnotationCordoned] == valueTrue && node.Annotations[annotationCordonedBefore] != valueTrue &&
		node.Annotations[annotationDryRun] == ""
}

// Leaving are the pods that the DrainRequests for a node name, by namespace and name, and when each of these requests was created. A request is for no pods that were created after
// it.
func (r *Requests) Leaving(ctx context.Context, node string) (map[client.ObjectKey][]time.Time, error) {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(DrainRequests.GroupVersion().WithKind(DrainRequests.Kind + "List"))
	if err := r.Reader.List(ctx, list, client.MatchingFields{indexNode: node}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list DrainRequests: %w", err)
	}
	leaving := map[client.ObjectKey][]time.Time{}
	for i := range list.Items {
		request := &drainRequest{}
		if runtime.DefaultUnstructuredConverter.FromUnstructured(list.Items[i].Object, request) != nil {
			continue // the drainer says so
		}
		for namespace, pods := range request.Spec.PodsToDrain {
			for _, pod := range pods {
				key := client.ObjectKey{Namespace: namespace, Name: pod}
				leaving[key] = append(leaving[key], request.CreationTimestamp.Time)
			}
		}
	}
	return leaving, nil
}
