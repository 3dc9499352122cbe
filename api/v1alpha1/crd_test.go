// The generated CRD, used as the API server would use it: prune, default, check
// against the schema, then run the CEL rules. No server is needed.

package v1alpha1

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	crdvalidation "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	schemacel "k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"sigs.k8s.io/yaml"
)

// The generated CRDs.
const (
	jobCRD    = "../../config/crd/lockstep.dev_trainingjobs.yaml"
	healthCRD = "../../config/crd/lockstep.dev_nodehealths.yaml"
	policyCRD = "../../config/crd/lockstep.dev_healthpolicies.yaml"
)

// apiServer admits objects as an API server with the CRD installed would.
type apiServer struct {
	structural *structuralschema.Structural
	schema     validation.SchemaValidator
	cel        *schemacel.Validator
}

// loadCRD reads the generated CRD as the API server does.
func loadCRD(file string) (*apiextensions.CustomResourceDefinition, error) {
	raw, err := os.ReadFile(filepath.FromSlash(file))
	if err != nil {
		return nil, err
	}
	var crd apiextensionsv1.CustomResourceDefinition
	if err := yaml.UnmarshalStrict(raw, &crd); err != nil {
		return nil, err
	}
	apiextensionsv1.SetDefaults_CustomResourceDefinition(&crd)
	apiextensionsv1.SetDefaults_CustomResourceDefinitionSpec(&crd.Spec)
	var internal apiextensions.CustomResourceDefinition
	if err := apiextensionsv1.Convert_v1_CustomResourceDefinition_To_apiextensions_CustomResourceDefinition(&crd, &internal, nil); err != nil {
		return nil, err
	}
	if internal.Spec.Validation == nil {
		return nil, fmt.Errorf("%s has no schema", file)
	}
	// A server that stores the object would have filled this in.
	internal.Status.StoredVersions = []string{GroupVersion.Version}
	return &internal, nil
}

// theServer is made once: compiling the rules takes most of the tests' time.
var theServer = sync.OnceValues(func() (*apiServer, error) { return serverOf(jobCRD) })

func serverOf(file string) (*apiServer, error) {
	crd, err := loadCRD(file)
	if err != nil {
		return nil, err
	}
	props := crd.Spec.Validation.OpenAPIV3Schema
	structural, err := structuralschema.NewStructural(props)
	if err != nil {
		return nil, err
	}
	schema, _, err := validation.NewSchemaValidator(props)
	if err != nil {
		return nil, err
	}
	return &apiServer{
		structural: structural,
		schema:     schema,
		cel:        schemacel.NewValidator(structural, true, celconfig.PerCallLimit),
	}, nil
}

func newAPIServer(t *testing.T) *apiServer {
	t.Helper()
	server, err := theServer()
	if err != nil {
		t.Fatal(err)
	}
	return server
}

// prepare does to a copy of the object what happens before validation.
func (s *apiServer) prepare(t *testing.T, doc string) map[string]any {
	t.Helper()
	raw, err := yaml.YAMLToJSON([]byte(doc))
	if err != nil {
		t.Fatalf("%v in:\n%s", err, doc)
	}
	var obj map[string]any
	if err := json.Unmarshal(raw, &obj); err != nil { // Kubernetes' own: whole numbers are int64
		t.Fatal(err)
	}
	pruning.Prune(obj, s.structural, true)
	defaulting.PruneNonNullableNullsWithoutDefaults(obj, s.structural)
	defaulting.Default(obj, s.structural)
	return obj
}

// create admits a new object.
func (s *apiServer) create(obj map[string]any) field.ErrorList {
	errs := validation.ValidateCustomResource(nil, obj, s.schema)
	return append(errs, s.common(obj, nil, len(errs) > 0)...)
}

// update admits a changed object.
func (s *apiServer) update(obj, old map[string]any) field.ErrorList {
	errs := validation.ValidateCustomResourceUpdate(nil, obj, old, s.schema)
	return append(errs, s.common(obj, old, len(errs) > 0)...)
}

func (s *apiServer) common(obj, old map[string]any, schemaFailed bool) field.ErrorList {
	ctx := context.Background()
	errs := objectmeta.Validate(ctx, nil, obj, s.structural, true)
	errs = append(errs, listtype.ValidateListSetsAndMaps(nil, s.structural, obj)...)
	if schemaFailed {
		return errs // the API server runs no CEL rules on what the schema refuses
	}
	var oldObj any // a nil map in an interface would count as an old object
	if old != nil {
		oldObj = old
	}
	celErrs, _ := s.cel.Validate(ctx, nil, s.structural, obj, oldObj, celconfig.RuntimeCELCostBudget)
	return append(errs, celErrs...)
}

// wantError fails unless one of the errors has the field and the fragment.
func wantError(t *testing.T, errs field.ErrorList, path, fragment string) {
	t.Helper()
	for _, err := range errs {
		if err.Field == path && strings.Contains(err.ErrorBody(), fragment) {
			return
		}
	}
	t.Errorf("no error at %s with %q; got %d:\n%v", path, fragment, len(errs), errs.ToAggregate())
}

// The API server refuses a CRD whose rules do not compile or may cost too much.
func TestCRDIsAcceptedByTheAPIServer(t *testing.T) {
	for _, file := range []string{jobCRD, healthCRD, policyCRD} {
		crd, err := loadCRD(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, err := range crdvalidation.ValidateCustomResourceDefinition(context.Background(), crd) {
			t.Errorf("%s: %v", file, err)
		}
	}
}
