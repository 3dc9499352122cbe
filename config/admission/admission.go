// Package admission admits objects of a CRD as the API server does: it removes unknown fields, fills in defaults, and checks the
// schema and the rules in CEL. No server is needed.
package admission

import (
	"context"
	"fmt"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	schemacel "k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
)

// Schema admits objects of one kind.
type Schema struct {
	// Structural has the fields, their defaults and their rules.
	Structural *structuralschema.Structural

	validator validation.SchemaValidator
	cel       *schemacel.Validator
}

// New compiles the schema of the first version of a CRD.
func New(crd *apiextensionsv1.CustomResourceDefinition) (*Schema, error) {
	if len(crd.Spec.Versions) == 0 || crd.Spec.Versions[0].Schema == nil {
		return nil, fmt.Errorf("CRD %s has no schema", crd.Name)
	}
	var props apiextensions.JSONSchemaProps
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(crd.Spec.Versions[0].Schema.OpenAPIV3Schema, &props, nil); err != nil {
		return nil, fmt.Errorf("CRD %s: %w", crd.Name, err)
	}
	structural, err := structuralschema.NewStructural(&props)
	if err != nil {
		return nil, fmt.Errorf("CRD %s: %w", crd.Name, err)
	}
	validator, _, err := validation.NewSchemaValidator(&props)
	if err != nil {
		return nil, fmt.Errorf("CRD %s: %w", crd.Name, err)
	}
	return &Schema{structural, validator, schemacel.NewValidator(structural, true, celconfig.PerCallLimit)}, nil
}

// Prepare does to an object what happens before validation: fields that the schema does not know are removed, and returned by their
// paths; defaults are filled in.
func (s *Schema) Prepare(obj map[string]any) (unknown []string) {
	unknown = pruning.PruneWithOptions(obj, s.Structural, true, structuralschema.UnknownFieldPathOptions{TrackUnknownFieldPaths: true})
	defaulting.PruneNonNullableNullsWithoutDefaults(obj, s.Structural)
	defaulting.Default(obj, s.Structural)
	return unknown
}

// Create admits a new object that was prepared. Its metadata is checked as far as the schema has rules about it.
func (s *Schema) Create(obj map[string]any) field.ErrorList {
	errs := validation.ValidateCustomResource(nil, obj, s.validator)
	return append(errs, s.common(obj, nil, len(errs) > 0)...)
}

// Update admits a changed object that was prepared, as was the old one.
func (s *Schema) Update(obj, old map[string]any) field.ErrorList {
	errs := validation.ValidateCustomResourceUpdate(nil, obj, old, s.validator)
	return append(errs, s.common(obj, old, len(errs) > 0)...)
}

func (s *Schema) common(obj, old map[string]any, schemaFailed bool) field.ErrorList {
	ctx := context.Background()
	errs := objectmeta.Validate(ctx, nil, obj, s.Structural, true)
	errs = append(errs, listtype.ValidateListSetsAndMaps(nil, s.Structural, obj)...)
	if schemaFailed {
		return errs // the API server runs no CEL rules on what the schema refuses
	}
	var oldObj any // a nil map in an interface would count as an old object
	if old != nil {
		oldObj = old
	}
	celErrs, _ := s.cel.Validate(ctx, nil, s.Structural, obj, oldObj, celconfig.RuntimeCELCostBudget)
	return append(errs, celErrs...)
}
