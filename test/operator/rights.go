// What the shipped roles grant.

package operator

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"

	"github.com/lockstep-dev/lockstep/test/cluster"
)

// Right names a verb and what it is for, as in "patch nodes/status" or "get lockstep.dev trainingjobs".
func Right(verb, group, resource string) string {
	return strings.Join(strings.Fields(verb+" "+group+" "+resource), " ")
}

// Rights are those that the manager's role grants.
func Rights() ([]string, error) { return RightsOf("config/rbac/role.yaml") }

// RightsOf are those that a role grants, by its file in the repository.
func RightsOf(file string) ([]string, error) {
	root, err := cluster.RepositoryRoot()
	if err != nil {
		return nil, err
	}
	raw, err := os.ReadFile(filepath.Join(root, file))
	if err != nil {
		return nil, err
	}
	role := &rbacv1.ClusterRole{}
	if err := yaml.UnmarshalStrict(raw, role); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	var out []string
	for _, rule := range role.Rules {
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				for _, verb := range rule.Verbs {
					out = append(out, Right(verb, group, resource))
				}
			}
		}
	}
	return out, nil
}
