// Samples that are no TrainingJobs: a test of api/v1alpha1 reads those.

package config

import (
	"os"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
	scheduling "volcano.sh/apis/pkg/apis/scheduling/v1beta1"
)

// documents are those of a file of YAML.
func documents(t *testing.T, name string) []string {
	t.Helper()
	raw, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(string(raw), "\n---\n")
}

func TestSamplesHaveNoUnknownFields(t *testing.T) {
	for _, name := range []string{"samples/team.yaml", "samples/claim.yaml"} {
		for _, doc := range documents(t, name) {
			meta := metav1.TypeMeta{}
			if err := yaml.Unmarshal([]byte(doc), &meta); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			into, known := map[string]any{
				"v1 Namespace": &corev1.Namespace{}, "v1 ResourceQuota": &corev1.ResourceQuota{},
				"v1 PersistentVolume": &corev1.PersistentVolume{}, "v1 PersistentVolumeClaim": &corev1.PersistentVolumeClaim{},
				"rbac.authorization.k8s.io/v1 RoleBinding": &rbacv1.RoleBinding{}, "rbac.authorization.k8s.io/v1 ClusterRoleBinding": &rbacv1.ClusterRoleBinding{},
				"scheduling.volcano.sh/v1beta1 Queue": &scheduling.Queue{},
			}[meta.APIVersion+" "+meta.Kind]
			if !known {
				t.Fatalf("%s: no type for %s %s", name, meta.APIVersion, meta.Kind)
			}
			if err := yaml.UnmarshalStrict([]byte(doc), into); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

// The rights that a team and those who look after nodes get are Kubernetes' own edit, and roles that the installation has.
func TestTheTeamIsBoundToRolesThatExist(t *testing.T) {
	roles, bound := map[string]bool{"edit": true}, 0
	for _, doc := range documents(t, "rbac/users.yaml") {
		role := rbacv1.ClusterRole{}
		if err := yaml.Unmarshal([]byte(doc), &role); err != nil {
			t.Fatal(err)
		}
		roles[role.Name] = true
	}
	for _, doc := range documents(t, "samples/team.yaml") {
		binding := rbacv1.ClusterRoleBinding{} // a RoleBinding has the same fields
		if err := yaml.Unmarshal([]byte(doc), &binding); err != nil {
			t.Fatal(err)
		}
		if name := binding.RoleRef.Name; name != "" {
			bound++
			if binding.RoleRef.Kind != "ClusterRole" || !roles[name] {
				t.Errorf("%s binds %s %s, which does not exist", binding.Name, binding.RoleRef.Kind, name)
			}
		}
	}
	if bound != 4 {
		t.Errorf("%d bindings are found, and there are 4", bound)
	}
}
