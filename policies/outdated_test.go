package policies

import (
	"strings"
	"testing"
	"time"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/policies/gang"
	"github.com/lockstep-dev/lockstep/policies/incident"
	"github.com/lockstep-dev/lockstep/policies/topology"
	"github.com/lockstep-dev/lockstep/test/check"
)

// remade makes the HyperNode of a name again, at a time of the scene.
func (s *scene) remade(name string, at time.Time) {
	hyperNodes := s.Topology.All()
	for i := range hyperNodes {
		if hyperNodes[i].Name == name {
			hyperNodes[i].CreatedTime = at
		}
	}
	s.Topology = topology.New(hyperNodes)
}

// boundAt says when the pods got their nodes.
func (s *scene) boundAt(at time.Time) {
	for i := range s.Pods {
		s.Pods[i].BoundTime = at
	}
}

// partition puts the workers into partitions of three.
func (s *scene) partition(mode v1alpha1.TopologyMode) {
	s.Job.Spec.Tasks[0].Partition = &v1alpha1.Partition{Size: 3, NetworkTopology: &v1alpha1.NetworkTopology{Mode: mode}}
}

// Volcano takes the gang for one of another HyperNode as long as pods of the gang run that are older than their home.
func TestVolcanoLooksAgainAtARecreatedHome(t *testing.T) {
	tests := map[string]struct {
		story func(*scene)
		want  RefreshStep
		again time.Duration // until Decide looks again because of it; 0 for not
	}{
		"recreated":                        {func(*scene) {}, RefreshBegin, 0},
		"as old as the gang":               {func(s *scene) { s.boundAt(s.Now); s.remade("rack-a", s.Now) }, "", 0},
		"younger than the gang":            {func(s *scene) { s.boundAt(s.Now.Add(-time.Second)); s.remade("rack-a", s.Now) }, RefreshBegin, 0},
		"another HyperNode recreated":      {func(s *scene) { s.remade("rack-a", time.Time{}); s.remade("rack-b", s.Now) }, "", 0},
		"nodes are tried":                  {func(s *scene) { s.Pods[1].Untried = false }, "", 0},
		"no pod of the gang is left there": {func(s *scene) { s.Pods[0].Node, s.Pods[2].Node = "", "" }, "", 0},
		"the gang is elsewhere":            {func(s *scene) { s.Pods[0].Node, s.Pods[2].Node = "n06", "n07" }, "", 0},
		"a soft topology":                  {func(s *scene) { s.Job.Spec.NetworkTopology.Mode = v1alpha1.TopologySoft }, "", 0},
		"no topology":                      {func(s *scene) { s.Job.Spec.NetworkTopology = nil }, "", 0},
		"no PodGroup":                      {func(s *scene) { s.PodGroup = nil }, "", 0},
		"back in the queue":                {func(s *scene) { s.PodGroup.Pending = true }, "", 0},
		"begun":                            {func(s *scene) { s.PodGroup.Refreshing, s.PodGroup.RefreshedTime = true, s.Now }, RefreshEnd, 0},
		"begun, and back in the queue":     {func(s *scene) { s.PodGroup.Refreshing, s.PodGroup.Pending = true, true }, RefreshEnd, 0},
		"begun, and home is old":           {func(s *scene) { s.PodGroup.Refreshing = true; s.remade("rack-a", time.Time{}) }, RefreshEnd, 0},
		"done":                             {func(s *scene) { s.PodGroup.RefreshedTime = s.Now.Add(-28 * time.Second) }, "", 2 * time.Second},
		"done, in vain":                    {func(s *scene) { s.PodGroup.RefreshedTime = s.Now.Add(-30 * time.Second) }, "", 0},
		"done for the one before":          {func(s *scene) { s.PodGroup.RefreshedTime = s.Pods[0].BoundTime }, RefreshBegin, 0},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			s := untried(v1alpha1.Step{Action: v1alpha1.RestartPod, AfterSeconds: 7200})
			s.Job.Spec.NetworkTopology = &v1alpha1.NetworkTopology{Mode: v1alpha1.TopologyHard}
			s.after(time.Minute).decide() // the incident about the waiting has begun
			s.PodGroup = &gang.PodGroup{Name: "llm-1", RefreshedTime: s.Now}
			s.boundAt(s.Now)
			s.after(time.Minute)
			s.remade("rack-a", s.Now.Add(-58*time.Second))
			tc.story(s)
			d := s.decide()
			check.Equal(t, "refresh", tc.want, s.plan().Refresh.Step)
			if tc.again > 0 {
				check.Equal(t, "looks again", s.Now.Add(tc.again), d.Next)
			}
		})
	}
}

// Nothing tells from outside whether Volcano remembers another HyperNode than the home of a gang, as it does where a node of the gang
// was deleted. It is made to look again once for each search, and once more with each incident.
func TestVolcanoLooksAgainWhereNoNodeIsTried(t *testing.T) {
	tests := map[string]struct {
		story func(*scene)
		want  RefreshStep
	}{
		"never before":                        {func(*scene) {}, RefreshBegin},
		"for a spare":                         {func(s *scene) { s.Pods[1].Spare = true }, RefreshBegin},
		"no other pod of the gang has a node": {func(s *scene) { s.Pods[0].Node, s.Pods[2].Node = "", "" }, ""},
		"only a spare has a node":             {func(s *scene) { s.Pods[0].Spare, s.Pods[2].Node = true, "" }, RefreshBegin},
		"the others have completed":           {func(s *scene) { s.succeed(0); s.succeed(2) }, ""},
		"a soft topology":                     {func(s *scene) { s.Job.Spec.NetworkTopology.Mode = v1alpha1.TopologySoft }, ""},
		"a hard topology of the partition":    {func(s *scene) { s.Job.Spec.NetworkTopology = nil; s.partition(v1alpha1.TopologyHard) }, RefreshBegin},
		"a soft topology of the partition":    {func(s *scene) { s.Job.Spec.NetworkTopology = nil; s.partition(v1alpha1.TopologySoft) }, ""},
		"done since the search began":         {func(s *scene) { s.PodGroup.RefreshedTime = s.Pods[1].PlacedTime }, ""},
		"done before the search began":        {func(s *scene) { s.PodGroup.RefreshedTime = s.Pods[1].PlacedTime.Add(-1) }, RefreshBegin},
		"done, and the node of a pod that runs has come back": {func(s *scene) {
			s.PodGroup.RefreshedTime = s.Now
			s.after(time.Second).joins(s.Pods[0].Node, "anew")
		}, RefreshBegin},
		"done, and the node of no pod has come": {func(s *scene) {
			s.PodGroup.RefreshedTime = s.Now
			s.after(time.Second).joins("n05", "anew")
		}, ""},
		"done, and another incident has begun": {func(s *scene) {
			s.PodGroup.RefreshedTime = s.Now
			s.status().Incidents[0].StartTime.Time = s.Now.Add(1)
		}, RefreshBegin},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			s := untried(v1alpha1.Step{Action: v1alpha1.RestartPod, AfterSeconds: 7200})
			s.PodGroup = &gang.PodGroup{Name: "llm-1"}
			s.Job.Spec.NetworkTopology = &v1alpha1.NetworkTopology{Mode: v1alpha1.TopologyHard}
			tc.story(s)
			check.Equal(t, "refresh", tc.want, s.plan().Refresh.Step)
		})
	}
}

// Clocks differ: that of the leader before, or that of the API server, may be ahead of ours. What they have timed brings one refresh.
func TestAClockThatIsAheadBringsOneRefresh(t *testing.T) {
	ahead := 5 * time.Second
	for name, story := range map[string]func(*scene){
		"of the leader that recorded an incident": func(s *scene) { s.status().Incidents[0].StartTime.Time = s.Now.Add(ahead) },
		"of the leader that placed the pod":       func(s *scene) { s.Pods[1].PlacedTime = s.Now.Add(ahead) },
		"of the API server, which made the home":  func(s *scene) { s.boundAt(s.Now); s.remade("rack-a", s.Now.Add(ahead)) },
	} {
		t.Run(name, func(t *testing.T) {
			s := untried(v1alpha1.Step{Action: v1alpha1.RestartPod, AfterSeconds: 7200})
			s.PodGroup = &gang.PodGroup{Name: "llm-1", RefreshedTime: s.Now}
			s.Job.Spec.NetworkTopology = &v1alpha1.NetworkTopology{Mode: v1alpha1.TopologyHard}
			story(s)
			check.Equal(t, "refresh", Refresh{RefreshBegin, s.Now.Add(ahead)}, s.plan().Refresh)
			s.PodGroup.RefreshedTime = s.Now.Add(ahead)
			check.Equal(t, "refresh again", Refresh{}, s.plan().Refresh)
		})
	}
}

// It is told, and steps that place the whole gang again are not in vain, until Volcano has looked again.
func TestAnOutdatedHomeIsTold(t *testing.T) {
	outdated := func(action v1alpha1.Action) *scene {
		s := untried(v1alpha1.Step{Action: action, AfterSeconds: 60})
		s.Job.Spec.NetworkTopology = &v1alpha1.NetworkTopology{Mode: v1alpha1.TopologyHard}
		s.remade("rack-a", s.Pods[0].BoundTime.Add(time.Second))
		s.decide()
		return s
	}
	s := outdated(v1alpha1.RestartJob)
	want := "waits for the scheduler, which tries no node for it: HyperNode rack-a was created after the gang was placed, and Volcano is made to look again where the gang runs"
	if !strings.Contains(s.status().Message, want) {
		t.Errorf("the message is %q, and does not say %q", s.status().Message, want)
	}
	s.after(time.Minute).decide()
	s.after(time.Hour).decide()
	check.Equal(t, "steps", []v1alpha1.Action{v1alpha1.RestartJob}, s.pendingSteps())

	for name, s := range map[string]*scene{"a step for a part of the gang": outdated(v1alpha1.RestartTask), "Volcano has looked again": outdated(v1alpha1.RestartJob)} {
		if name == "Volcano has looked again" {
			s.PodGroup = &gang.PodGroup{Name: "llm-1", RefreshedTime: s.Now}
			s.after(incident.RefreshTime).decide()
			has := strings.Contains(s.status().Message, "queue default may be over")
			check.Equal(t, "tells of the queue", true, has)
		}
		s.after(time.Minute).decide()
		s.after(time.Hour).decide()
		check.Equal(t, name, nil, s.pendingSteps())
	}
}
