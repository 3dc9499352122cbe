// The documents that the validation tests start from, and how they change them.

package v1alpha1

import (
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// minimal is the least that a user has to write.
const minimal = `
apiVersion: lockstep.dev/v1alpha1
kind: TrainingJob
metadata: {name: llama-70b}
spec:
  tasks:
  - name: worker
    replicas: 16
    template:
      spec:
        containers: [{name: train, image: train}]
`

// full uses every field that is in force, but partition and, since PyTorch's world has one
// size, minReplicas and maxReplicas.
const full = `
apiVersion: lockstep.dev/v1alpha1
kind: TrainingJob
metadata: {name: llama-70b}
spec:
  queue: research
  managedBy: kueue.x-k8s.io/multikueue
  priorityClassName: training-high
  suspend: false
  minAvailable: 16
  successPolicy: {tasks: [master]}
  activeDeadlineSeconds: 604800
  ttlSecondsAfterFinished: 86400
  networkTopology: {mode: hard, highestTierAllowed: 1}
  framework: {pytorch: {}}
  hold: {policy: Always, seconds: 900}
  checkpoint:
    request: {httpPost: {port: 8080, path: /checkpoint}, timeoutSeconds: 60}
    pods: {tasks: [master], ranks: First}
  tasks:
  - name: master
    template:
      metadata: {labels: {team: llm}, annotations: {example.com/note: "yes"}}
      spec:
        restartPolicy: OnFailure
        schedulerName: volcano
        containers: [{name: train, image: train, ports: [{containerPort: 8080}]}]
  - name: worker
    replicas: 15
    spares: 1
    template:
      spec:
        restartPolicy: Never
        containers: [{name: train, image: train}]
    restartPolicy:
      rules:
      - name: evicted
        match: {events: [PodFailed, PodDeleted], podConditions: [{type: DisruptionTarget, status: "True", reason: EvictionByEvictionAPI}]}
        steps: [{action: MigratePod}]
      - {name: no-room, match: {events: [PodPending]}, steps: [{action: RelocateJob, afterSeconds: 600}]}
      budget: {maxRestarts: 5}
  restartPolicy:
    rules:
    - name: bad-config
      match: {exitCodes: {operator: In, values: [2]}, events: [PodFailed], tasks: [worker]}
      steps: [{action: FailJob}]
    - name: out-of-memory
      match: {reasons: [OOMKilled]}
      steps: [{action: Ignore}]
      charge: Never
    - name: node-may-return
      match: {events: [NodeNotReady], gangRunning: true}
      steps: [{action: RestartPod, afterSeconds: 90}]
    - name: may-come-back
      match: {events: [PodNotReady, NodeNotReady, PodNotStarted]}
      steps: [{action: RestartPod, afterSeconds: 90}, {action: RestartJob, afterSeconds: 600}]
    - name: everything-else
      match: {events: ["*"]}
      steps:
      - {action: RestartPod}
      - {action: RestartTask, afterSeconds: 180}
      - {action: RestartJob, afterSeconds: 600}
      - {action: RelocateJob, afterSeconds: 900}
      - {action: FailJob, afterSeconds: 3600}
    budget: {maxRestarts: 0, windowSeconds: 3600}
    backoff: {initialSeconds: 10, maxSeconds: 600}
    excludeNodeSeconds: 0
    unreachableNode: {policy: RequireProof}
`

// set changes a document: path to YAML, where an empty value removes the field.
// Paths are like spec.tasks[0].name; a list grows by one where the index is its length.
type set map[string]string

func (s set) apply(t *testing.T, doc string) string {
	t.Helper()
	var obj any
	if err := yaml.Unmarshal([]byte(doc), &obj); err != nil {
		t.Fatal(err)
	}
	for _, path := range slices.Sorted(maps.Keys(s)) {
		var value any
		if err := yaml.Unmarshal([]byte(s[path]), &value); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		obj = put(t, obj, splitPath(path), value, s[path] == "")
	}
	out, err := yaml.Marshal(obj)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

var listIndex = regexp.MustCompile(`\[(\d+)\]`)

func splitPath(path string) []string {
	return strings.Split(listIndex.ReplaceAllString(path, ".$1"), ".")
}

func put(t *testing.T, at any, path []string, value any, remove bool) any {
	t.Helper()
	if len(path) == 0 {
		return value
	}
	if list, ok := at.([]any); ok {
		index, err := strconv.Atoi(path[0])
		if err != nil {
			t.Fatal(err)
		}
		if index == len(list) {
			list = append(list, nil)
		}
		list[index] = put(t, list[index], path[1:], value, remove)
		return list
	}
	object, ok := at.(map[string]any)
	if !ok {
		object = map[string]any{}
	}
	if len(path) == 1 && remove {
		delete(object, path[0])
		return object
	}
	object[path[0]] = put(t, object[path[0]], path[1:], value, remove)
	return object
}
