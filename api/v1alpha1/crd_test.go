// The generated CRD, used as the API server would use it: prune, default, check
// against the schema, then run the CEL rules. No server is needed.

package v1alpha1

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	crdvalidation "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

	"github.com/lockstep-dev/lockstep/config"
	"github.com/lockstep-dev/lockstep/config/admission"
)

// The names of the generated CRDs.
const (
	jobCRD    = "trainingjobs.lockstep.dev"
	healthCRD = "nodehealths.lockstep.dev"
	policyCRD = "healthpolicies.lockstep.dev"
)

// apiServer admits objects as an API server with the CRD installed would.
type apiServer struct{ *admission.Schema }

// loadCRD reads the generated CRD as the API server does.
func loadCRD(name string) (*apiextensionsv1.CustomResourceDefinition, error) {
	all, err := config.CRDs()
	if err != nil {
		return nil, err
	}
	at := slices.IndexFunc(all, func(crd apiextensionsv1.CustomResourceDefinition) bool { return crd.Name == name })
	if at < 0 {
		return nil, fmt.Errorf("there is no CRD %s", name)
	}
	crd := &all[at]
	apiextensionsv1.SetDefaults_CustomResourceDefinition(crd)
	apiextensionsv1.SetDefaults_CustomResourceDefinitionSpec(&crd.Spec)
	// A server that stores the object would have filled this in.
	crd.Status.StoredVersions = []string{GroupVersion.Version}
	return crd, nil
}

// theServer is made once: compiling the rules takes most of the tests' time.
var theServer = sync.OnceValues(func() (*apiServer, error) { return serverOf(jobCRD) })

func serverOf(name string) (*apiServer, error) {
	crd, err := loadCRD(name)
	if err != nil {
		return nil, err
	}
	schema, err := admission.New(crd)
	return &apiServer{schema}, err
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
	s.Prepare(obj)
	return obj
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
	for _, name := range []string{jobCRD, healthCRD, policyCRD} {
		crd, err := loadCRD(name)
		if err != nil {
			t.Fatal(err)
		}
		var internal apiextensions.CustomResourceDefinition
		if err := apiextensionsv1.Convert_v1_CustomResourceDefinition_To_apiextensions_CustomResourceDefinition(crd, &internal, nil); err != nil {
			t.Fatal(err)
		}
		for _, err := range crdvalidation.ValidateCustomResourceDefinition(context.Background(), &internal) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
