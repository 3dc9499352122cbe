package cluster

import (
	"context"
	"path/filepath"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func TestAServerIsHeldBack(t *testing.T) {
	behind, err := shared.AddHeldBack(t.Context(), filepath.Join(t.TempDir(), "audit.log"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := behind.Stop(); err != nil {
			t.Error(err)
		}
	}()
	config := shared.RESTConfig()
	config.Host = behind.URL
	there, err := client.New(config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	lists := func(list client.ObjectList, names func() []string) []string {
		t.Helper()
		if err := there.List(t.Context(), list, &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: "0"}}); err != nil {
			t.Fatal(err)
		}
		return names()
	}
	maps, secrets := &corev1.ConfigMapList{}, &corev1.SecretList{}
	hasMap := func() bool {
		return slices.ContainsFunc(lists(maps, func() (names []string) {
			for i := range maps.Items {
				names = append(names, maps.Items[i].Name)
			}
			return names
		}), func(name string) bool { return name == "late" })
	}
	hasSecret := func() bool {
		return slices.ContainsFunc(lists(secrets, func() (names []string) {
			for i := range secrets.Items {
				names = append(names, secrets.Items[i].Name)
			}
			return names
		}), func(name string) bool { return name == "late" })
	}
	eventually := func(what string, holds func() bool) {
		t.Helper()
		err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, time.Minute, true, func(context.Context) (bool, error) { return holds(), nil })
		if err != nil {
			t.Fatalf("waiting until %s: %v", what, err)
		}
	}

	behind.Hold("/configmaps/")
	late := metav1.ObjectMeta{Namespace: "default", Name: "late"}
	configMap := &corev1.ConfigMap{ObjectMeta: late}
	for _, obj := range []client.Object{configMap, &corev1.Secret{ObjectMeta: late}} {
		if err := shared.Client().Create(t.Context(), obj); err != nil {
			t.Fatal(err)
		}
	}
	eventually("what is not held back is there", hasSecret)
	if hasMap() {
		t.Error("a list has what is held back")
	}
	if err := there.Get(t.Context(), client.ObjectKeyFromObject(configMap), configMap); err != nil {
		t.Errorf("one object is not read as it is: %v", err)
	}
	behind.Release()
	eventually("what was held back is there", hasMap)
}
