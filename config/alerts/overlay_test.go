// The overlay adds the receiver to what config/default installs, and takes nothing away.
package alerts

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/lockstep-dev/lockstep/test/cluster"
)

func rendered(t *testing.T, dir string) map[string]*unstructured.Unstructured {
	t.Helper()
	objects, err := cluster.Kustomize(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]*unstructured.Unstructured{}
	for _, o := range objects {
		out[o.GetKind()+" "+o.GetName()] = o
	}
	return out
}

func manager(t *testing.T, objects map[string]*unstructured.Unstructured) *appsv1.Deployment {
	t.Helper()
	d := &appsv1.Deployment{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(objects["Deployment lockstep-manager"].Object, d); err != nil {
		t.Fatal(err)
	}
	return d
}

// The page shows a folder that adds the receiver to another one than config/default.
func TestTheFolderOfThePage(t *testing.T) {
	page, err := os.ReadFile("../../health/alerts/README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, shown, _ := strings.Cut(string(page), "```yaml\n   # mine/kustomization.yaml\n")
	shown, _, found := strings.Cut(shown, "```")
	if !found {
		t.Fatal("health/alerts/README.md shows no mine/kustomization.yaml")
	}
	dir := t.TempDir()
	root, err := filepath.Abs("../..")
	if err == nil {
		root, err = filepath.Rel(dir, root)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "kustomization.yaml"), []byte(strings.ReplaceAll(shown, "../config", filepath.Join(root, "config"))), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	both := rendered(t, dir)
	if diff := cmp.Diff(rendered(t, "../samples/dcgm-node-library")["DaemonSet lockstep-health-agent"], both["DaemonSet lockstep-health-agent"]); diff != "" {
		t.Errorf("the agent: %s", diff)
	}
	if diff := cmp.Diff(manager(t, rendered(t, ".")), manager(t, both)); diff != "" {
		t.Errorf("the manager: %s", diff)
	}
}

func TestOverlay(t *testing.T) {
	with, without := rendered(t, "."), rendered(t, "../default")
	for _, name := range []string{"Service lockstep-alerts", "ClusterRole lockstep-alert-sender"} {
		if with[name] == nil || without[name] != nil {
			t.Errorf("%s is not what the overlay adds", name)
		}
	}
	for name, object := range without {
		if name == "Deployment lockstep-manager" {
			continue
		}
		if diff := cmp.Diff(object, with[name]); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}

	got, want := manager(t, with), manager(t, without)
	added := &got.Spec.Template.Spec.Containers[0]
	base := &want.Spec.Template.Spec.Containers[0]
	base.Args = append(base.Args, "--alerts-bind-address=:9443", "--alerts-cert-dir=/etc/lockstep/alerts")
	if i := slices.IndexFunc(added.VolumeMounts, func(m corev1.VolumeMount) bool { return m.MountPath == "/etc/lockstep/alerts" && m.ReadOnly }); i < 0 {
		t.Error("the certificate is not mounted")
	} else {
		base.VolumeMounts = slices.Insert(base.VolumeMounts, i, added.VolumeMounts[i])
	}
	if i := slices.IndexFunc(added.Ports, func(p corev1.ContainerPort) bool { return p.Name == "alerts" && p.ContainerPort == 9443 }); i < 0 {
		t.Error("the port is not named")
	} else {
		base.Ports = slices.Insert(base.Ports, i, added.Ports[i])
	}
	volumes := &want.Spec.Template.Spec.Volumes
	if i := slices.IndexFunc(got.Spec.Template.Spec.Volumes, func(v corev1.Volume) bool { return v.Secret != nil && v.Secret.SecretName == "lockstep-alerts-tls" }); i < 0 {
		t.Error("the Secret is no volume")
	} else {
		*volumes = slices.Insert(*volumes, i, got.Spec.Template.Spec.Volumes[i])
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the manager: %s", diff)
	}
}
