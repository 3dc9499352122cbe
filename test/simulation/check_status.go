package simulation

import (
	"fmt"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/config"
	"github.com/lockstep-dev/lockstep/config/admission"
)

const (
	// validatedShare is how many histories there are for each one in which every status is validated: that takes longer than the rest.
	validatedShare = 50
	// maxStatus and maxStatusPerRank bound the size of a status, in bytes.
	maxStatus, maxStatusPerRank = 64 << 10, 256
	// specOfJob is one that the API server accepts, whatever the status.
	specOfJob = `{"queue": "default", "tasks": [{"name": "worker", "replicas": 1, "template": {"spec": {"containers": [{"name": "train", "image": "train"}]}}}]}`
)

// jobSchema validates TrainingJobs as the API server does. It is compiled once.
var jobSchema = sync.OnceValues(func() (*admission.Schema, error) {
	crd, err := config.CRD("TrainingJob")
	if err != nil {
		return nil, err
	}
	return admission.New(crd)
})

// checkStatus checks that the API server accepts a status, and that the status has its bounds. In most histories it looks only at the
// size, and only where there is another incident, for incidents are what grows.
func (r *record) checkStatus() {
	grown := len(r.s.Incidents) != len(r.old.Incidents)
	validates := r.validates && (grown || r.ranks == 0)
	if !validates && !grown {
		return
	}
	raw, err := json.Marshal(r.s)
	r.require(Status, err == nil, "the status is no JSON: %v", err)
	limit := maxStatus + maxStatusPerRank*len(ranksOf(r.o.Job, r.s))
	r.require(Status, len(raw) <= limit, "the status has %d bytes, and may have %d", len(raw), limit)
	if validates {
		refusal := refusalOf(raw)
		r.require(Status, refusal == "", "the API server refuses the status: %s", refusal)
	}
}

// refusalOf says why the API server refuses a status; empty where it does not.
func refusalOf(status []byte) string {
	schema, err := jobSchema()
	if err != nil {
		return err.Error()
	}
	obj := map[string]any{"apiVersion": v1alpha1.GroupVersion.String(), "kind": "TrainingJob", "metadata": map[string]any{"name": "llm", "namespace": "research"}}
	for name, raw := range map[string][]byte{"spec": []byte(specOfJob), "status": status} {
		var v map[string]any
		if err := json.Unmarshal(raw, &v); err != nil {
			return err.Error()
		}
		obj[name] = v
	}
	unknown := schema.Prepare(obj)
	var refusals field.ErrorList
	for _, e := range schema.Create(obj) {
		if strings.HasPrefix(e.Field, "status") {
			refusals = append(refusals, e)
		}
	}
	if len(unknown) > 0 || len(refusals) > 0 {
		return fmt.Sprint(unknown, refusals)
	}
	return ""
}
