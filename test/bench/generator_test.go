package main

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	batch "volcano.sh/apis/pkg/apis/batch/v1alpha1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

func TestRoomFor(t *testing.T) {
	tests := map[int]struct {
		racks int
		tiers []int
	}{
		4:    {2, []int{8}},
		36:   {2, []int{8}},
		64:   {4, []int{8}},
		1000: {56, []int{8, 8}},
	}
	for pods, want := range tests {
		got := roomFor(pods)
		if got.Racks != want.racks || !cmp.Equal(got.Tiers, want.tiers) || len(got.NodeNames()) < pods {
			t.Errorf("%d pods: %d racks, tiers %v; want %d, %v", pods, got.Racks, got.Tiers, want.racks, want.tiers)
		}
	}
}

// Both sides get the same pods, or nothing could be compared.
func TestSidesGetTheSamePods(t *testing.T) {
	g := &gang{name: "g", pods: 4, pool: roomFor(4)}
	ours, isOurs := g.trainingJob().(*v1alpha1.TrainingJob)
	theirs, isTheirs := g.volcanoJob().(*batch.Job)
	if !isOurs || !isTheirs {
		t.Fatal("other kinds of objects")
	}
	if diff := cmp.Diff(ours.Spec.Tasks[0].Template, theirs.Spec.Tasks[0].Template); diff != "" {
		t.Errorf("templates (-ours +theirs):\n%s", diff)
	}
	a, b := ours.Spec.NetworkTopology, theirs.Spec.NetworkTopology
	if string(a.Mode) != string(b.Mode) || int(*a.HighestTierAllowed) != *b.HighestTierAllowed {
		t.Errorf("topology %v and %v", a, b)
	}
	if ours.Spec.Tasks[0].Replicas != theirs.Spec.Tasks[0].Replicas || theirs.Spec.MinAvailable != theirs.Spec.Tasks[0].Replicas {
		t.Error("the gangs have other sizes")
	}
}

func TestCounts(t *testing.T) {
	c := counts{}
	if err := c.Set("4,64,1000"); err != nil || c.String() != "4,64,1000" || c.at(1) != 64 || c.at(9) != 1000 {
		t.Errorf("got %v, %v", c, err)
	}
	if err := c.Set(""); err != nil || len(c) != 0 || c.at(0) != 0 {
		t.Errorf("of nothing: got %v, %v", c, err)
	}
	for _, bad := range []string{"4,", "0", "-1", "x"} {
		if err := c.Set(bad); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}
