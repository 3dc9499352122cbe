// Package config holds what a cluster needs to run Lockstep. What a program has to compare with a cluster is embedded here.
package config

import (
	"embed"
	"fmt"
	"path"

	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

//go:embed crd/lockstep.dev_*.yaml rbac/role.yaml
var files embed.FS

// CRDs returns Lockstep's CustomResourceDefinitions.
func CRDs() ([]apiextensionsv1.CustomResourceDefinition, error) {
	entries, err := files.ReadDir("crd")
	if err != nil {
		return nil, err
	}
	out := make([]apiextensionsv1.CustomResourceDefinition, len(entries))
	for i, entry := range entries {
		if err := parse(path.Join("crd", entry.Name()), &out[i]); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// CRD returns Lockstep's CustomResourceDefinition of a kind, such as TrainingJob.
func CRD(kind string) (*apiextensionsv1.CustomResourceDefinition, error) {
	all, err := CRDs()
	if err != nil {
		return nil, err
	}
	for i := range all {
		if all[i].Spec.Names.Kind == kind {
			return &all[i], nil
		}
	}
	return nil, fmt.Errorf("there is no CRD of kind %s", kind)
}

// ManagerRole returns the ClusterRole that the manager needs.
func ManagerRole() (*rbacv1.ClusterRole, error) {
	role := &rbacv1.ClusterRole{}
	return role, parse("rbac/role.yaml", role)
}

func parse(name string, into any) error {
	raw, err := files.ReadFile(name)
	if err != nil {
		return err
	}
	if err := yaml.UnmarshalStrict(raw, into); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}
