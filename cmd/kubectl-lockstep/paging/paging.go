// Package paging lists objects in pages, so that neither the API server nor the client holds a long list in one piece.
package paging

import (
	"context"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/pager"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Reader is a client whose lists are read in pages.
type Reader struct{ client.Reader }

// List reads all pages into a list. A list whose pages have expired is read once more, in one piece.
func (r Reader) List(ctx context.Context, into client.ObjectList, options ...client.ListOption) error {
	all, _, err := r.pages(into, options).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	items, err := meta.ExtractList(all)
	if err != nil {
		return err
	}
	return meta.SetList(into, items)
}

// Each calls a function with every object of a list, and keeps a few pages at a time. The list only says of which kind it is.
func (r Reader) Each(ctx context.Context, kind client.ObjectList, visit func(runtime.Object) error, options ...client.ListOption) error {
	return r.pages(kind, options).EachListItem(ctx, metav1.ListOptions{}, visit)
}

func (r Reader) pages(kind client.ObjectList, options []client.ListOption) *pager.ListPager {
	return pager.New(func(ctx context.Context, page metav1.ListOptions) (runtime.Object, error) {
		list := kind.DeepCopyObject().(client.ObjectList)
		chosen := append([]client.ListOption{client.Limit(page.Limit), client.Continue(page.Continue)}, options...)
		return list, r.Reader.List(ctx, list, chosen...)
	})
}
