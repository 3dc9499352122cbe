// Package paging reads long lists in pages, so that the client holds only a few of these.
package paging

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/pager"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Reader is a client that can read lists in pages.
type Reader struct{ client.Reader }

// Each calls a function with every object of a list. The list only says of which kind it is.
func (r Reader) Each(ctx context.Context, kind client.ObjectList, visit func(runtime.Object) error, options ...client.ListOption) error {
	pages := pager.New(func(ctx context.Context, page metav1.ListOptions) (runtime.Object, error) {
		list := kind.DeepCopyObject().(client.ObjectList)
		return list, r.List(ctx, list, append([]client.ListOption{client.Limit(page.Limit), client.Continue(page.Continue)}, options...)...)
	})
	return pages.EachListItem(ctx, metav1.ListOptions{}, visit)
}
