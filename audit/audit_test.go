package audit

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// history writes the log of an API server, line by line.
type history struct {
	t     *testing.T
	lines []string
	now   time.Time
	// version is the last resourceVersion, and objects are what there is, by resource and name.
	version int
	objects map[string]map[string]any
}

const (
	manager = "system:serviceaccount:lockstep-system:lockstep-manager"
	kubelet = "system:node:n0"
	volcano = "volcano"
	user1   = "ada"
)

func newHistory(t *testing.T) *history {
	return &history{t: t, now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), objects: map[string]map[string]any{}}
}

func (h *history) after(d time.Duration) *history {
	h.now = h.now.Add(d)
	return h
}

// write logs a request that changes an object, and its answer. Without changes the object keeps its version.
func (h *history) write(by, verb, resource, name string, changes map[string]any) {
	h.t.Helper()
	key := resource + "/" + name
	obj := h.objects[key]
	if obj == nil {
		obj = map[string]any{"metadata": map[string]any{"name": name, "namespace": "ml", "uid": "uid-" + name + "-1"}}
	}
	before := h.text(obj)
	merge(obj, changes)
	if h.text(obj) != before || verb == "create" {
		h.version++
		obj["metadata"].(map[string]any)["resourceVersion"] = fmt.Sprint(h.version)
	}
	h.objects[key] = obj
	h.log(by, verb, resource, "", name, nil, obj)
}

// remove logs the request that removes an object at once.
func (h *history) remove(by, resource, name string) {
	h.t.Helper()
	h.write(by, "delete", resource, name, map[string]any{"metadata": map[string]any{"deletionTimestamp": h.now, "deletionGracePeriodSeconds": 0}})
	delete(h.objects, resource+"/"+name)
}

func (h *history) log(by, verb, resource, subresource, name string, request, answer any) {
	h.t.Helper()
	h.after(time.Millisecond)
	h.lines = append(h.lines, h.text(map[string]any{
		"kind": "Event", "stage": "ResponseComplete", "verb": verb, "user": map[string]any{"username": by},
		"objectRef":      map[string]any{"resource": resource, "subresource": subresource, "namespace": "ml", "name": name},
		"responseStatus": map[string]any{"code": 200}, "requestObject": request, "responseObject": answer,
		"requestReceivedTimestamp": h.now, "stageTimestamp": h.now,
	}))
}

// late has the last request be answered only now that others, which follow it, have been.
func (h *history) late(others func()) {
	h.t.Helper()
	at := len(h.lines) - 1
	others()
	var event fields
	if err := json.Unmarshal([]byte(h.lines[at]), &event); err != nil {
		h.t.Fatal(err)
	}
	event["stageTimestamp"] = h.after(time.Millisecond).now
	h.lines[at] = h.text(event)
}

// evicts logs an eviction, whose answer does not have the pod.
func (h *history) evicts(by, name string) {
	h.t.Helper()
	h.version++
	merge(h.objects["pods/"+name], fields{"metadata": fields{"deletionTimestamp": h.now, "resourceVersion": fmt.Sprint(h.version)}})
	h.log(by, "create", "pods", "eviction", name, nil, fields{"kind": "Status"})
}

// fails logs a request that is answered with an error, whether it is done or not.
func (h *history) fails(by, verb, resource, name string) {
	h.t.Helper()
	h.log(by, verb, resource, "", name, nil, fields{"kind": "Status"})
	last := &h.lines[len(h.lines)-1]
	*last = strings.Replace(*last, `"code":200`, `"code":504`, 1)
}

func (h *history) text(of any) string {
	raw, err := json.Marshal(of)
	if err != nil {
		h.t.Fatal(err)
	}
	return string(raw)
}

// merge puts changes into an object, map by map.
func merge(into, changes map[string]any) {
	for key, value := range changes {
		if deeper, is := value.(map[string]any); is {
			if old, has := into[key].(map[string]any); has {
				merge(old, deeper)
				continue
			}
			value = maps.Clone(deeper)
		}
		into[key] = value
	}
}

type fields = map[string]any

// job is a running TrainingJob of one rank on n0, which it holds.
func (h *history) job() *history {
	h.write(kubelet, "create", "nodes", "n0", fields{"status": fields{
		"allocatable": fields{"nvidia.com/gpu": "8"}, "conditions": []any{fields{"type": "Ready", "status": "True"}},
	}})
	h.write(user1, "create", "trainingjobs", "llama", fields{"spec": fields{}})
	h.status(fields{"attempt": 1, "tasks": []any{fields{"name": "worker"}}})
	h.pod("llama-1-worker-0", "n0")
	return h
}

// status is one that the manager writes.
func (h *history) status(s fields) {
	h.write(manager, "update", "trainingjobs", "llama", fields{"status": s})
}

// restarts has a step restart the rank, with all of its task.
func (h *history) restarts(incarnation int) {
	h.status(fields{
		"tasks": []any{fields{"name": "worker", "replicas": 1, "incarnation": incarnation}}, "incidents": []any{incident0("0", step0("RestartTask", h.now))},
	})
}

// pod is one of the rank, made by Volcano, let go by the manager, bound and run.
func (h *history) pod(name, node string) {
	h.gated(name)
	h.lifts(name)
	h.bind(volcano, name, node)
	h.write(kubelet, "patch", "pods", name, fields{"spec": fields{"nodeName": node}, "status": fields{"phase": "Running"}})
}

// gated is one of the rank that Volcano has made.
func (h *history) gated(name string) {
	h.write(volcano, "create", "pods", name, fields{
		"metadata": fields{"uid": fmt.Sprintf("uid-%s-%d", name, h.version), "labels": fields{
			"lockstep.dev/job-uid": "uid-llama-1", "lockstep.dev/task": "worker", "lockstep.dev/attempt": strings.Split(name, "-")[1],
		}},
		"spec": fields{
			"schedulingGates": []any{fields{"name": "lockstep.dev/placement"}},
			"containers":      []any{fields{"resources": fields{"requests": fields{"nvidia.com/gpu": "8"}}}},
		},
	})
}

// lifts has the manager lift the gate of a pod.
func (h *history) lifts(name string) {
	h.write(manager, "patch", "pods", name, fields{"metadata": fields{"annotations": fields{"lockstep.dev/incarnation": h.wanted()}}, "spec": fields{"schedulingGates": []any{}}})
}

// wanted is the incarnation that the status asks for.
func (h *history) wanted() string {
	tasks, _ := h.objects["trainingjobs/llama"]["status"].(map[string]any)["tasks"].([]any)
	for _, t := range tasks {
		if n, is := t.(map[string]any)["incarnation"].(int); is {
			return fmt.Sprint(n)
		}
	}
	return "0"
}

func (h *history) bind(by, name, node string) {
	h.log(by, "create", "pods", "binding", name, fields{"target": fields{"name": node}}, fields{"kind": "Status"})
}

// deletes has the manager delete a pod, which its kubelet ends.
func (h *history) deletes(name string) {
	h.write(manager, "delete", "pods", name, fields{"metadata": fields{"deletionTimestamp": h.now, "deletionGracePeriodSeconds": 30}})
}

func (h *history) check() *Report {
	h.t.Helper()
	report, err := Check(Options{}, strings.NewReader(strings.Join(h.lines, "\n")+"\n"))
	if err != nil {
		h.t.Fatal(err)
	}
	return report
}

// hold is the taint of the job, until a time or standing.
func hold(value string) []any {
	return []any{fields{"key": "hold.lockstep.dev/llama-uid", "value": value, "effect": "NoSchedule"}}
}

// incidents are those of a status.
func incidents(of ...fields) fields {
	var all []any
	for _, one := range of {
		all = append(all, one)
	}
	return fields{"incidents": all}
}

// Clocks of API servers may differ by more than what lies between two writes.
func TestOrderOfSeveralServers(t *testing.T) {
	at := func(ms int) time.Time { return time.Date(2026, 1, 2, 3, 4, 5, ms*1e6, time.UTC) }
	write := func(log, version, from, until int) entry {
		answer := fmt.Sprintf(`{"metadata": {"name": "p", "resourceVersion": "%d"}}`, version)
		return entry{log: log, line: version, ObjectRef: &reference{Resource: "pods"}, ResponseObject: json.RawMessage(answer),
			RequestReceivedTimestamp: at(from), StageTimestamp: at(until)}
	}
	for second, want := range map[int][]int{0: {2, 1}, 1: {1, 2}} { // by one server the first has changed nothing
		entries := []entry{write(0, 1, 50, 53), write(second, 2, 10, 13)}
		order(entries)
		if got := []int{entries[0].line, entries[1].line}; !slices.Equal(got, want) {
			t.Errorf("the second write by server %d: versions in order %v, want %v", second, got, want)
		}
	}
}

// Each history is one that is well, with one thing in it that is not.
func TestFalsifiedHistories(t *testing.T) {
	judge(t, map[string]story{
		"a recovery": {func(h *history) {
			h.restarts(1)
			h.deletes("llama-1-worker-0")
			h.after(time.Second).remove(kubelet, "pods", "llama-1-worker-0")
			h.pod("llama-1-worker-0", "n0")
		}, ""},
		"the pod of a rank that a step restarts is gone, and the answer to who removed it was an error": {func(h *history) {
			h.restarts(1)
			h.deletes("llama-1-worker-0")
			h.pod("llama-1-worker-0", "n0")
		}, ""},
		"the pod of a rank is gone, and then another server answers that it is to go": {func(h *history) {
			h.restarts(1)
			answer := json.RawMessage(h.text(h.objects["pods/llama-1-worker-0"]))
			h.remove(kubelet, "pods", "llama-1-worker-0")
			h.gated("llama-1-worker-0")
			h.log(manager, "delete", "pods", "", "llama-1-worker-0", nil, answer)
			h.lifts("llama-1-worker-0")
			h.bind(manager, "llama-1-worker-0", "n0")
		}, ""},
		"the next attempt, and the first pod was removed, which was answered with an error": {func(h *history) {
			h.status(fields{"attempt": 2})
			h.fails(manager, "delete", "pods", "llama-1-worker-0")
			h.pod("llama-2-worker-1", "n1")
		}, ""},
		"the next attempt, and another deletion of the first pod is answered after its removal": {func(h *history) {
			h.status(fields{"attempt": 2})
			h.deletes("llama-1-worker-0")
			answer := json.RawMessage(h.text(h.objects["pods/llama-1-worker-0"]))
			h.remove(kubelet, "pods", "llama-1-worker-0")
			h.log("garbage-collector", "delete", "pods", "", "llama-1-worker-0", nil, answer)
			h.pod("llama-2-worker-1", "n1")
		}, ""},
		"the removal of the first pod is answered late": {func(h *history) {
			h.status(fields{"attempt": 2})
			h.deletes("llama-1-worker-0")
			h.remove(kubelet, "pods", "llama-1-worker-0")
			h.late(func() { h.pod("llama-2-worker-0", "n1") })
		}, ""},
		"a pod is deleted that is being evicted": {func(h *history) {
			h.evicts(user1, "llama-1-worker-0")
			h.write(user1, "create", "pods", "another", nil)
			h.restarts(1)
			h.write(manager, "delete", "pods", "llama-1-worker-0", nil)
		}, ""},
		"a second pod of a rank, while the first one ends": {func(h *history) {
			h.status(fields{"attempt": 2})
			h.deletes("llama-1-worker-0")
			h.pod("llama-2-worker-0", "n1")
		}, "OneLife"},
		"a pod of the next attempt, while another rank of the first one runs": {func(h *history) {
			h.status(fields{"attempt": 2})
			h.pod("llama-2-worker-1", "n1")
		}, "OneRun"},
		"the same, and the node of the first one is silent": {func(h *history) {
			h.write("node-controller", "patch", "nodes", "n0", fields{"status": fields{"conditions": []any{fields{"type": "Ready", "status": "Unknown"}}}})
			h.status(fields{"attempt": 2})
			h.pod("llama-2-worker-1", "n1")
		}, ""},
		"the first pod has ended": {func(h *history) {
			h.write(kubelet, "patch", "pods", "llama-1-worker-0", fields{"status": fields{"phase": "Failed"}})
			h.status(fields{"attempt": 2})
			h.pod("llama-2-worker-0", "n1")
		}, ""},
		"a working pod is deleted, and no step asks for it": {func(h *history) { h.deletes("llama-1-worker-0") }, "Deletions"},
		"it is deleted before the step is recorded":         {func(h *history) { h.deletes("llama-1-worker-0"); h.restarts(1) }, "Deletions"},
		"the step is recorded, and the answer was an error": {func(h *history) {
			h.fails(manager, "update", "trainingjobs", "llama")
			h.deletes("llama-1-worker-0")
		}, ""},
		"it was, and the log has shown the job since": {func(h *history) {
			h.fails(manager, "update", "trainingjobs", "llama")
			h.status(fields{"ready": "1/1"})
			h.deletes("llama-1-worker-0")
		}, "Deletions"},
		"a user deletes it": {func(h *history) {
			h.write(user1, "delete", "pods", "llama-1-worker-0", fields{"metadata": fields{"deletionTimestamp": h.now}})
		}, ""},
		"a user whom the manager's credentials speak for deletes it": {func(h *history) {
			h.deletes("llama-1-worker-0")
			last := &h.lines[len(h.lines)-1]
			*last = strings.Replace(*last, `"objectRef"`, `"impersonatedUser":{"username":"ada"},"objectRef"`, 1)
		}, ""},
		"a deletion is tried": {func(h *history) {
			h.log(manager, "delete", "pods", "", "llama-1-worker-0", fields{"kind": "DeleteOptions", "dryRun": []any{"All"}}, h.objects["pods/llama-1-worker-0"])
		}, ""},
		"a status is tried": {func(h *history) {
			h.restarts(1)
			last := &h.lines[len(h.lines)-1]
			*last = strings.Replace(*last, `"objectRef"`, `"requestURI":"/apis/lockstep.dev/v1alpha1/namespaces/ml/trainingjobs/llama/status?dryRun=All","objectRef"`, 1)
			h.deletes("llama-1-worker-0")
		}, "Deletions"},
		"a pod that has failed is deleted": {func(h *history) {
			h.write(kubelet, "patch", "pods", "llama-1-worker-0", fields{"status": fields{"phase": "Failed"}})
			h.deletes("llama-1-worker-0")
		}, ""},
		"a pod of a suspended job is deleted": {func(h *history) {
			h.write(user1, "patch", "trainingjobs", "llama", fields{"spec": fields{"suspend": true}})
			h.deletes("llama-1-worker-0")
		}, ""},
		"a pod of an earlier attempt is deleted":      {func(h *history) { h.status(fields{"attempt": 2}); h.deletes("llama-1-worker-0") }, ""},
		"a step restarts a rank, and nothing happens": {func(h *history) { h.restarts(1); h.after(61 * time.Second); h.status(fields{"ready": "0/1"}) }, "Restarts"},
		"a step restarts a rank, a little later":      {func(h *history) { h.restarts(1); h.after(59 * time.Second); h.deletes("llama-1-worker-0") }, ""},
		"a step restarts a rank whose node is silent": {func(h *history) {
			h.write("node-controller", "patch", "nodes", "n0", fields{"status": fields{"conditions": []any{fields{"type": "Ready", "status": "Unknown"}}}})
			h.restarts(1)
			h.after(2 * time.Minute)
			h.status(fields{"ready": "0/1"})
		}, ""},
		"an incident that has ended opens again": {func(h *history) {
			h.status(incidents(fields{"id": 1, "outcome": "Recovered"}))
			h.status(incidents(fields{"id": 1}))
		}, "Incidents"},
		"an incident loses a step": {func(h *history) {
			h.status(incidents(fields{"id": 1, "steps": []any{fields{"action": "RestartPod"}}}))
			h.status(incidents(fields{"id": 1}))
		}, "Incidents"},
		"an incident is open when its job has ended": {func(h *history) {
			h.status(fields{"incidents": []any{fields{"id": 1}}, "conditions": []any{fields{"type": "Failed", "status": "True"}}})
		}, "Incidents"},
		"an incident ends": {func(h *history) {
			h.status(incidents(fields{"id": 1}))
			h.status(incidents(fields{"id": 1, "outcome": "Recovered"}))
		}, ""},
		"more is charged than the default budget has": {func(h *history) { h.charged(20); h.charged(21) }, "Budget"},
		"more is charged than the job's budget has": {func(h *history) {
			h.write(user1, "patch", "trainingjobs", "llama", fields{"spec": fields{"restartPolicy": fields{"budget": fields{"maxRestarts": 2}}}})
			h.charged(2)
			h.charged(3)
		}, "Budget"},
		"as much as the budget has": {func(h *history) { h.charged(19); h.charged(20) }, ""},
		"more is charged to a task than its own budget has": {func(h *history) {
			h.write(user1, "patch", "trainingjobs", "llama", fields{"spec": fields{"tasks": []any{
				fields{"name": "worker", "restartPolicy": fields{"budget": fields{"maxRestarts": 1}}},
			}}})
			h.status(fields{"tasks": []any{fields{"name": "worker", "chargedTimes": []any{h.now}}}})
			h.status(fields{"tasks": []any{fields{"name": "worker", "chargedTimes": []any{h.now, h.now}}}})
		}, "Budget"},
		"charges older than the window": {func(h *history) { h.charged(20); h.after(25 * time.Hour); h.chargedAgain() }, ""},
		"a hold outlives its time": {func(h *history) {
			h.holds(fmt.Sprint(h.now.Add(time.Minute).Unix()) + "-7")
			h.idle(2 * time.Minute)
			h.idle(2 * time.Minute)
		}, "Holds"},
		"a hold ends, and the answer was an error": {func(h *history) {
			h.holds(fmt.Sprint(h.now.Add(time.Minute).Unix()) + "-7")
			h.idle(70 * time.Second)
			h.fails(manager, "patch", "nodes", "n0")
			h.idle(2 * time.Minute)
			h.idle(2 * time.Minute)
		}, ""},
		"a hold ends in time": {func(h *history) {
			h.holds(fmt.Sprint(h.now.Add(time.Minute).Unix()) + "-7")
			h.idle(70 * time.Second)
			h.holds("")
			h.idle(2 * time.Minute)
		}, ""},
		"a standing hold outlives its job": {func(h *history) {
			h.holds("standing-7")
			h.remove(user1, "trainingjobs", "llama")
			h.idle(time.Second)
			h.idle(2 * time.Minute)
		}, "Holds"},
		"a standing hold outlives its job, which was recreated": {func(h *history) {
			h.holds("standing-7")
			h.write(user1, "create", "trainingjobs", "llama", fields{"metadata": fields{"uid": "second-llama"}, "spec": fields{}})
			h.idle(time.Second)
			h.idle(2 * time.Minute)
		}, "Holds"},
		"a standing hold outlives the end of its job": {func(h *history) {
			h.holds("standing-7")
			h.status(fields{"conditions": []any{fields{"type": "Completed", "status": "True"}}})
			h.idle(time.Second)
			h.idle(2 * time.Minute)
		}, "Holds"},
		"a standing hold outlives its job, and its node does not": {func(h *history) {
			h.holds("standing-7")
			h.remove(user1, "trainingjobs", "llama")
			h.log(user1, "deletecollection", "nodes", "", "", nil, fields{"kind": "NodeList", "items": []any{h.objects["nodes/n0"]}})
			h.idle(time.Second)
			h.idle(2 * time.Minute)
		}, ""},
		"a standing hold of a job that runs": {func(h *history) { h.holds("standing-7"); h.idle(time.Hour); h.idle(time.Hour) }, ""},
		"the manager binds a pod to a node that is full": {func(h *history) {
			h.write(volcano, "create", "pods", "other", fields{"spec": fields{"containers": []any{fields{"resources": fields{"limits": fields{"nvidia.com/gpu": "1"}}}}}})
			h.bind(manager, "other", "n0")
		}, "Fit"},
		"Volcano does": {func(h *history) {
			h.write(volcano, "create", "pods", "other", fields{"spec": fields{"containers": []any{fields{"resources": fields{"limits": fields{"nvidia.com/gpu": "1"}}}}}})
			h.bind(volcano, "other", "n0")
		}, ""},
		"the manager writes a status that is so already": {func(h *history) { h.status(fields{"ready": "1/1"}); h.status(fields{"ready": "1/1"}) }, "Quiet"},
		"a user writes what is so already":               {func(h *history) { h.write(user1, "patch", "trainingjobs", "llama", fields{}) }, ""},
	})
}

// story is a history that goes on with a running job, and the rule that it breaks, if it breaks one.
type story struct {
	tell func(*history)
	rule string
}

func judge(t *testing.T, stories map[string]story) {
	for name, tc := range stories {
		t.Run(name, func(t *testing.T) {
			h := newHistory(t).job()
			tc.tell(h)
			var rules []string
			for _, v := range h.check().Violations {
				rules = append(rules, v.Rule)
			}
			var want []string
			if tc.rule != "" {
				want = []string{tc.rule}
			}
			if diff := cmp.Diff(want, rules); diff != "" {
				t.Errorf("rules (-want +got):\n%s\n%v", diff, h.check().Violations)
			}
		})
	}
}

// charged has the job charged so often, all of late.
func (h *history) charged(times int) {
	var all []any
	for i := range times {
		all = append(all, h.now.Add(-time.Duration(times-i)*time.Second))
	}
	h.status(fields{"restarts": fields{"chargedTimes": all}})
}

// chargedAgain has the job charged once more.
func (h *history) chargedAgain() {
	times := h.objects["trainingjobs/llama"]["status"].(map[string]any)["restarts"].(map[string]any)["chargedTimes"].([]any)
	h.status(fields{"restarts": fields{"chargedTimes": append(times, h.now)}})
}

// holds gives n0 the taint of the job; none where the value is empty.
func (h *history) holds(value string) {
	taints := []any{}
	if value != "" {
		taints = hold(value)
	}
	h.write(manager, "patch", "nodes", "n0", fields{"spec": fields{"taints": taints}})
}

// idle lets time pass in which something else happens.
func (h *history) idle(d time.Duration) {
	h.after(d)
	h.write(user1, "patch", "pods", "elsewhere", fields{"metadata": fields{"labels": fields{"at": h.now.String()}}})
}

func TestWhatALogHasShown(t *testing.T) {
	h := newHistory(t).job()
	report := h.check()
	if report.Jobs != 1 || report.Pods != 1 || report.Lines != len(h.lines) || report.ByManager != 2 {
		t.Errorf("got %+v", report)
	}
	if len(report.Violations) > 0 {
		t.Errorf("got %v", report.Violations)
	}
}

func TestBadLogs(t *testing.T) {
	whole := newHistory(t).job()
	ofAnother := strings.ReplaceAll(strings.Join(whole.lines, "\n"), manager, "system:serviceaccount:ours:manager")
	withoutBodies := strings.NewReplacer(`"responseObject"`, `"not"`).Replace(strings.Join(whole.lines, "\n"))
	tests := map[string]struct{ log, err string }{
		"empty":              {"", ""},
		"not a log":          {"hello\n", "line 1 is no event of an audit log"},
		"without objects":    {withoutBodies, "level RequestResponse"},
		"of another user":    {ofAnother, "no request in the log is the manager's"},
		"cut off at its end": {strings.Join(whole.lines, "\n") + "\n" + `{"stage":`, ""},
		"broken within":      {whole.lines[0] + "\n{\n" + whole.lines[1] + "\n", "line 2 is no event of an audit log"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := Check(Options{}, strings.NewReader(tc.log))
			if tc.err == "" && err != nil || tc.err != "" && (err == nil || !strings.Contains(err.Error(), tc.err)) {
				t.Errorf("got %v, want %q", err, tc.err)
			}
		})
	}
}

func TestAReportHasALimit(t *testing.T) {
	h := newHistory(t).job()
	for range 5 {
		h.status(fields{})
	}
	report, err := Check(Options{Max: 2}, strings.NewReader(strings.Join(h.lines, "\n")))
	if err != nil || len(report.Violations) != 2 {
		t.Errorf("got %v, %v", report, err)
	}
}

// Each of several logs may end within a line, and a request may be in two of them.
func TestSeveralLogs(t *testing.T) {
	h := newHistory(t).job()
	for i, line := range h.lines {
		h.lines[i] = strings.Replace(line, `"kind":"Event"`, fmt.Sprintf(`"kind":"Event","auditID":"%d"`, i), 1)
	}
	half := len(h.lines) / 2
	later := strings.NewReader(strings.Join(h.lines[half-1:], "\n") + "\n" + `{"kind":"Ev`)
	earlier := strings.NewReader(strings.Join(h.lines[:half], "\n") + "\n" + h.lines[half][:20])
	report, err := Check(Options{}, later, earlier)
	if err != nil {
		t.Fatal(err)
	}
	if report.Lines != len(h.lines) || len(report.Violations) > 0 {
		t.Errorf("%d of %d requests were played, and %v", report.Lines, len(h.lines), report.Violations)
	}
}
