// Package stored computes how large the API server stores an object, without an API server.
package stored

import (
	"encoding/json"
	"fmt"
	"sync"

	"k8s.io/apiextensions-apiserver/pkg/controller/openapi/builder"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/managedfields"

	"github.com/lockstep-dev/lockstep/config"
)

// fields tells the fields of a TrainingJob by its CRD. It is made once.
var fields = sync.OnceValues(func() (managedfields.TypeConverter, error) {
	crd, err := config.CRD("TrainingJob")
	if err != nil {
		return nil, err
	}
	api, err := builder.BuildOpenAPIV3(crd, crd.Spec.Versions[0].Name, builder.Options{})
	if err != nil {
		return nil, err
	}
	return managedfields.NewTypeConverter(api.Components.Schemas, false)
})

// Size is how many bytes a TrainingJob takes: its JSON, and the managedFields in which the API server notes every field, and every item of
// a list that is no atomic one.
func Size(job any) (int, error) {
	raw, err := json.Marshal(job)
	if err != nil {
		return 0, err
	}
	obj := &unstructured.Unstructured{}
	if err := obj.UnmarshalJSON(raw); err != nil {
		return 0, err
	}
	converter, err := fields()
	if err != nil {
		return 0, fmt.Errorf("read the CRD: %w", err)
	}
	value, err := converter.ObjectToTyped(obj)
	if err != nil {
		return 0, err
	}
	set, err := value.ToFieldSet()
	if err != nil {
		return 0, err
	}
	managed, err := set.ToJSON()
	return len(raw) + len(managed), err
}
