package controllers

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	scheduling "volcano.sh/apis/pkg/apis/scheduling/v1beta1"

	"github.com/lockstep-dev/lockstep/policies"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/test/check"
)

func TestARefreshLeavesThePodGroupAsItWas(t *testing.T) {
	tests := map[string][]scheduling.SubGroupPolicySpec{
		"a job without partitions": nil,
		"a job with partitions":    {{Name: "worker"}},
	}
	for name, own := range tests {
		t.Run(name, func(t *testing.T) {
			e := running(t)
			pg := &scheduling.PodGroup{}
			name := types.NamespacedName{Namespace: key.Namespace, Name: "llm-1-"}
			e.must(e.api.Get(t.Context(), name, pg))
			pg.Spec.SubGroupPolicy = own
			e.must(e.api.Update(t.Context(), pg))
			a := actor{TrainingJobReconciler: e.r, job: e.job(), seen: &gang.Observation{PodGroup: &gang.PodGroup{Name: pg.Name}, Now: e.clock.Now()}}
			for range 2 { // a repeated step changes nothing
				e.must(a.refresh(t.Context(), policies.RefreshBegin))
				e.must(e.api.Get(t.Context(), name, pg))
				check.Equal(t, "policies", len(own)+1, len(pg.Spec.SubGroupPolicy))
				check.Equal(t, "begun", true, refreshing(pg))
				check.Equal(t, "at", e.clock.Now().Truncate(time.Second), refreshedTime(pg))
			}
			e.must(a.refresh(t.Context(), policies.RefreshEnd))
			e.must(e.api.Get(t.Context(), name, pg))
			check.Equal(t, "policies in the end", len(own), len(pg.Spec.SubGroupPolicy))
			check.Equal(t, "over", false, refreshing(pg))
			check.Equal(t, "at", e.clock.Now().Truncate(time.Second), refreshedTime(pg))
		})
	}
}
