package e2e

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

// snapshots is where the clusters of cmd/kubectl-lockstep/testdata/questions come from. `make questions` sets it.
var snapshots = flag.String("snapshots", "", "folder into which the clusters are written of which the plugin is asked questions; none are by default")

// snapshotKinds are what is written of a cluster: what the plugin reads, secrets and the manager's own objects apart.
var snapshotKinds = []schema.GroupVersionKind{
	{Version: "v1", Kind: "Namespace"}, {Version: "v1", Kind: "Node"}, {Version: "v1", Kind: "Pod"}, {Version: "v1", Kind: "Event"},
	{Group: "scheduling.volcano.sh", Version: "v1beta1", Kind: "Queue"}, {Group: "scheduling.volcano.sh", Version: "v1beta1", Kind: "PodGroup"},
	{Group: "topology.volcano.sh", Version: "v1alpha1", Kind: "HyperNode"},
	v1alpha1.GroupVersion.WithKind("TrainingJob"), v1alpha1.GroupVersion.WithKind("NodeHealth"), v1alpha1.GroupVersion.WithKind("HealthPolicy"),
}

// snapshot writes the cluster as it is now.
func (s *scenario) snapshot(name string) {
	s.t.Helper()
	if *snapshots == "" {
		return
	}
	time.Sleep(3 * time.Second) // events come later than what they tell of
	out := map[string]any{"time": time.Now().UTC().Format(time.RFC3339)}
	var objects []any
	for _, kind := range snapshotKinds {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
		s.must(testCluster.Client().List(s.ctx, list), "list "+kind.Kind)
		for i := range list.Items {
			if s.belongs(&list.Items[i]) {
				list.Items[i].SetManagedFields(nil)
				objects = append(objects, list.Items[i].Object)
			}
		}
	}
	out["objects"] = objects
	raw, err := yaml.Marshal(out)
	s.must(err, "print the cluster")
	s.must(os.WriteFile(filepath.Join(*snapshots, name+".yaml"), raw, 0o600), "write the cluster")
}

// belongs reports whether an object is of this scenario, or of none. Events outlive what they are about.
func (s *scenario) belongs(obj *unstructured.Unstructured) bool {
	if obj.GetKind() != "Event" {
		return obj.GetNamespace() != metav1.NamespaceSystem
	}
	about, _, _ := unstructured.NestedString(obj.Object, "involvedObject", "name")
	return strings.HasPrefix(about, s.pool.Name)
}
