package nodes

import (
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockstep-dev/lockstep/test/check"
)

// The taints are those that Karpenter 1.0 (pkg/apis/v1/taints.go) and Cluster Autoscaler (cluster-autoscaler/utils/taints/taints.go) add.
func TestNodesThatAreCordonedOrRemoved(t *testing.T) {
	at := time.Date(2026, 11, 2, 9, 0, 0, 0, time.UTC)
	taint := func(key, value string, added *metav1.Time) corev1.Taint {
		return corev1.Taint{Key: key, Value: value, Effect: corev1.TaintEffectNoSchedule, TimeAdded: added}
	}
	karpenter := taint("karpenter.sh/disrupted", "", nil)
	autoscaler := func(value string) corev1.Taint { return taint("ToBeDeletedByClusterAutoscaler", value, nil) }
	cordon := taint(corev1.TaintNodeUnschedulable, "", new(metav1.NewTime(at.Add(-time.Minute))))
	for name, c := range map[string]struct {
		cordoned    bool
		deleted     *metav1.Time
		taints      []corev1.Taint
		is, removed bool
		since       time.Time
	}{
		"neither":                         {taints: []corev1.Taint{taint("nvidia.com/gpu", "", nil)}},
		"cordoned":                        {cordoned: true, taints: []corev1.Taint{cordon}, is: true, since: at.Add(-time.Minute)},
		"cordoned just now":               {cordoned: true, is: true},
		"by Karpenter":                    {taints: []corev1.Taint{karpenter}, is: true, removed: true},
		"by Karpenter, deleted":           {taints: []corev1.Taint{karpenter}, deleted: new(metav1.NewTime(at)), is: true, removed: true, since: at},
		"by Karpenter, cordoned before":   {cordoned: true, taints: []corev1.Taint{karpenter, cordon}, deleted: new(metav1.NewTime(at)), is: true, removed: true, since: at.Add(-time.Minute)},
		"by the autoscaler":               {taints: []corev1.Taint{autoscaler(strconv.FormatInt(at.Unix(), 10))}, is: true, removed: true, since: at},
		"by the autoscaler, without time": {taints: []corev1.Taint{autoscaler("now")}, is: true, removed: true},
		"by the autoscaler, before 1970":  {taints: []corev1.Taint{autoscaler("-5")}, is: true, removed: true},
		"a candidate of the autoscaler":   {taints: []corev1.Taint{taint("DeletionCandidateOfClusterAutoscaler", "5", nil)}},
	} {
		t.Run(name, func(t *testing.T) {
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: c.deleted}, Spec: corev1.NodeSpec{Unschedulable: c.cordoned, Taints: c.taints}}
			check.Equal(t, "cordoned", c.is, IsCordoned(node))
			check.Equal(t, "removed", c.removed, IsRemoved(node))
			check.Equal(t, "asks every 10 s", strings.Contains(name, "by the autoscaler"), EvictionRetry(node) == 10*time.Second)
			check.Equal(t, "since", true, c.since.Equal(CordonedSince(node)))
		})
	}
}
