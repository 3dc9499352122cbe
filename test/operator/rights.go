// What the shipped roles grant.

package operator

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/lockstep-dev/lockstep/test/cluster"
)

// Right names a verb and what it is for, as in "patch nodes/status" or "get lockstep.dev trainingjobs".
func Right(verb, group, resource string) string {
	return strings.Join(strings.Fields(verb+" "+group+" "+resource), " ")
}

// Rights are those that the shipped roles grant a service account, by its name as a user, in whichever of the folders under config they are.
func Rights(user string) ([]string, error) {
	root, err := cluster.RepositoryRoot()
	if err != nil {
		return nil, err
	}
	all := grants{user: user, rules: map[string][]rbacv1.PolicyRule{}}
	err = filepath.WalkDir(filepath.Join(root, "config"), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(path) != ".yaml" {
			return err
		}
		return all.read(path)
	})
	if err != nil {
		return nil, err
	}
	if len(all.roles) == 0 {
		return nil, fmt.Errorf("no file under config binds a role to %s", user)
	}
	var out []string
	for _, role := range all.roles {
		if len(all.rules[role]) == 0 {
			return nil, fmt.Errorf("%s is bound to %s, and no file under config has its rules", user, role)
		}
		out = append(out, rightsOf(all.rules[role])...)
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

// grants are roles, and which of them a user has.
type grants struct {
	user string
	// rules by kind and name of the role.
	rules map[string][]rbacv1.PolicyRule
	// roles are those that are bound to the user's account.
	roles []string
}

// read adds the roles and bindings of a file.
func (g *grants) read(path string) error {
	raw, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	for document := range bytes.SplitSeq(raw, []byte("\n---")) {
		var o struct {
			metav1.TypeMeta   `json:",inline"`
			metav1.ObjectMeta `json:"metadata"`
			Rules             []rbacv1.PolicyRule `json:"rules"`
			RoleRef           rbacv1.RoleRef      `json:"roleRef"`
			Subjects          []rbacv1.Subject    `json:"subjects"`
		}
		if !bytes.Contains(document, []byte(rbacv1.GroupName)) {
			continue
		}
		if err := yaml.Unmarshal(document, &o); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		switch o.Kind {
		case "Role", "ClusterRole":
			g.rules[o.Kind+" "+o.Name] = o.Rules
		case "RoleBinding", "ClusterRoleBinding":
			if slices.ContainsFunc(o.Subjects, g.is) {
				g.roles = append(g.roles, o.RoleRef.Kind+" "+o.RoleRef.Name)
			}
		}
	}
	return nil
}

func (g *grants) is(s rbacv1.Subject) bool {
	return s.Kind == rbacv1.ServiceAccountKind && "system:serviceaccount:"+s.Namespace+":"+s.Name == g.user
}

func rightsOf(rules []rbacv1.PolicyRule) []string {
	var out []string
	for _, rule := range rules {
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				for _, verb := range rule.Verbs {
					out = append(out, Right(verb, group, resource))
				}
			}
		}
	}
	return out
}
