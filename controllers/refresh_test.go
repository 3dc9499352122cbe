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
			e.Must(e.API.Get(t.Context(), name, pg))
			pg.Spec.SubGroupPolicy = own
			e.Must(e.API.Update(t.Context(), pg))
			a := actor{TrainingJobReconciler: e.r, job: e.job(), seen: &gang.Observation{PodGroup: &gang.PodGroup{Name: pg.Name}}}
			for range 2 { // a repeated step changes nothing
				e.Must(a.refresh(t.Context(), policies.Refresh{Step: policies.RefreshBegin, Time: e.Clock.Now()}))
				e.Must(e.API.Get(t.Context(), name, pg))
				check.Equal(t, "policies", len(own)+1, len(pg.Spec.SubGroupPolicy))
				check.Equal(t, "begun", true, refreshing(pg))
				check.Equal(t, "at", e.Clock.Now().Truncate(time.Second), refreshedTime(pg))
			}
			e.Must(a.refresh(t.Context(), policies.Refresh{Step: policies.RefreshEnd}))
			e.Must(e.API.Get(t.Context(), name, pg))
			check.Equal(t, "policies in the end", len(own), len(pg.Spec.SubGroupPolicy))
			check.Equal(t, "over", false, refreshing(pg))
			check.Equal(t, "at", e.Clock.Now().Truncate(time.Second), refreshedTime(pg))
		})
	}
}
