package simulate

import (
	"cmp"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// mistake is a command that is refused, with a part of the error.
type mistake struct {
	args []string
	want string
}

func checkMistakes(t *testing.T, tests map[string]mistake) {
	t.Helper()
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := simulate(tc.args...)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}

// fileOf writes a file.
func fileOf(t *testing.T, content string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "file.yaml")
	if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// changed is a file with the job of the sample, in which something is replaced.
func changed(t *testing.T, old, replacement string) string {
	t.Helper()
	raw, err := os.ReadFile(sample)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(raw), old) {
		t.Fatalf("the sample has no %q", old)
	}
	return fileOf(t, strings.Replace(string(raw), old, replacement, 1))
}

const job = "apiVersion: lockstep.dev/v1alpha1\nkind: TrainingJob\nmetadata: {name: a}\n"

func TestFilesOfJobsAreRefused(t *testing.T) {
	file := func(content string) []string { return []string{"-f", fileOf(t, content)} }
	const pods = "spec: {tasks: [{name: worker, replicas: 2, template: {spec: {containers: [{name: c, image: i}]}}}]}\n"
	two := fileOf(t, job+pods+"---\n"+strings.Replace(job, "name: a", "name: b", 1)+pods)
	checkMistakes(t, map[string]mistake{
		"no file":            {nil, "at least one of the flags in the group [filename replay] is required"},
		"an empty name":      {[]string{"-f", ""}, "-f names no file: give it that of a TrainingJob, or - for standard input"},
		"a file that is not": {[]string{"-f", "nowhere.yaml"}, "open nowhere.yaml: no such file"},
		"one to compare":     {[]string{"-f", sample, "--compare", "nowhere.yaml"}, "open nowhere.yaml: no such file"},
		"an empty file":      {file("# nothing\n"), "file.yaml: there are 0 TrainingJobs in it, and there has to be one"},
		"no YAML":            {file(job + "spec: {\n"), "line 4: "},
		"in a second part":   {file("# one\n---\n" + job + "spec:\n\ttasks: []\n"), "found character that cannot start any token"},
		"a list":             {file("- 1\n"), "file.yaml: "},
		"another kind":       {file("apiVersion: batch/v1\nkind: Job\nmetadata: {name: a}\n"), "there are 0 TrainingJobs in it, and there has to be one"},
		"another version":    {file(strings.Replace(job, "v1alpha1", "v2", 1)), `apiVersion is "lockstep.dev/v2", and has to be lockstep.dev/v1alpha1`},
		"two jobs":           {[]string{"-f", two}, "there are 2 TrainingJobs in it, and there has to be one"},
		"no pods":            {file(job + strings.Replace(pods, "replicas: 2", "replicas: 0", 1)), "spec.tasks[0].replicas: Invalid value: 0: spec.tasks[0].replicas in body should be greater than or equal to 1"},
		"standard input":     {[]string{"-f", "-", "--compare", "-"}, "there are 0 TrainingJobs in it"},
	})
}

// What the API server refuses is refused in its words.
func TestJobsAreValidatedAsTheAPIServerDoes(t *testing.T) {
	spec := func(text string) string { return changed(t, "queue: default", text) }
	policy := func(text string) string { return spec("queue: default\n  restartPolicy: {" + text + "}") }
	rule := func(text string) string { return policy("rules: [{name: r, " + text + "}]") }
	raw, err := os.ReadFile(sample)
	if err != nil {
		t.Fatal(err)
	}
	checkMistakes(t, map[string]mistake{
		"an unknown field":          {[]string{"-f", spec("queu: default")}, `file.yaml: `},
		"its path":                  {[]string{"-f", spec("queu: default")}, `unknown field "spec.queu"`},
		"an unknown field of a pod": {[]string{"-f", changed(t, "image:", "imag:")}, `unknown field "spec.tasks[0].template.spec.containers[0].imag"`},
		"unknown metadata":          {[]string{"-f", changed(t, "name: llama", "name: llama\n  label: {}")}, `unknown field "metadata.label"`},
		"metadata of another type":  {[]string{"-f", changed(t, "name: llama", "name: llama\n  labels: {a: 1}")}, "cannot unmarshal number into Go struct field ObjectMeta.metadata.labels of type string"},
		"no name":                   {[]string{"-f", changed(t, "name: llama", "labels: {}")}, "metadata.name: Required value"},
		"a name":                    {[]string{"-f", changed(t, "name: llama", "name: Llama")}, "metadata.name: Invalid value: \"Llama\""},
		"an action":                 {[]string{"-f", rule("match: {events: [PodFailed]}, steps: [{action: Reboot}]")}, `spec.restartPolicy.rules[0].steps[0].action: Unsupported value: "Reboot": supported values: `},
		"an event":                  {[]string{"-f", rule("match: {events: [PodFaild]}, steps: [{action: RestartPod}]")}, `spec.restartPolicy.rules[0].match.events`},
		"an enum":                   {[]string{"-f", changed(t, "hold: {policy: Always}", "hold: {policy: Sometimes}")}, `Unsupported value: "Sometimes"`},
		"a type":                    {[]string{"-f", changed(t, "replicas: 4", "replicas: four")}, `spec.tasks[0].replicas: Invalid value: "string": spec.tasks[0].replicas in body must be of type integer`},
		"a time":                    {[]string{"-f", policy("unreachableNode: {afterSeconds: 1m}")}, `spec.restartPolicy.unreachableNode.afterSeconds: Invalid value: "string"`},
		"a negative time":           {[]string{"-f", policy("unreachableNode: {afterSeconds: -1}")}, `afterSeconds in body should be greater than or equal to`},
		"a rule in CEL":             {[]string{"-f", changed(t, "networkTopology: {mode: hard, highestTierAllowed: 2}", "networkTopology: {mode: hard}")}, "mode hard needs highestTierAllowed"},
		"a rule about tasks":        {[]string{"-f", rule("match: {}, steps: [{action: ShrinkTask}]")}, "rule r: ShrinkTask needs a task with minReplicas"},
		"no tasks":                  {[]string{"-f", fileOf(t, job)}, "spec: Required value"},
		"several":                   {[]string{"-f", changed(t, "queue: default", "queu: default\n  minAvailable: 0")}, "unknown field \"spec.queu\"\nspec.minAvailable: "},
		"the policy to compare":     {[]string{"-f", sample, "--compare", rule("match: {}, steps: [{action: Reboot}]")}, `Unsupported value: "Reboot"`},
		"the job to replay":         {[]string{"-f", sample, "--replay", rule("match: {}, steps: [{action: Reboot}]")}, `Unsupported value: "Reboot"`},
		"a time of the status":      {[]string{"-f", fileOf(t, strings.Replace(string(raw)+recorded, `"2026-01-02T04:00:00.000000Z"`, "yesterday", 1))}, `status.incidents[1].startTime: Invalid value: "yesterday"`},
		"a point of a sweep":        {[]string{"-f", sample, "--sweep", "excludeNodeSeconds=1s..20000d"}, "--sweep: with "},
	})
}

func TestFlagsNameWhatIsWrong(t *testing.T) {
	checkMistakes(t, map[string]mistake{
		"too few nodes":        {[]string{"-f", sample, "--nodes", "3"}, "the job needs 4 pods at once, and a HyperNode of tier 2 or lower, as its networkTopology asks for, takes 3 at most: see --nodes, --nodes-per-rack and --topology"},
		"no time":              {[]string{"-f", sample, "--for", "soon"}, `invalid argument "soon" for "--for" flag: "soon" is no time such as 90s, 12h or 30d`},
		"no length":            {[]string{"-f", sample, "--for", "0d"}, "--for is 0, and has to be positive"},
		"no plays":             {[]string{"-f", sample, "--plays", "0"}, "--plays is 0"},
		"parts of plays":       {[]string{"-f", sample, "--plays", "1.5"}, `invalid argument "1.5" for "--plays" flag`},
		"a negative seed":      {[]string{"-f", sample, "--seed", "-1"}, `invalid argument "-1" for "--seed" flag`},
		"a cost":               {[]string{"-f", sample, "--restore", "2 minutes"}, `"--restore" flag: "2 minutes" is no time such as`},
		"no GPUs":              {[]string{"-f", sample, "--gpus-per-node", "0"}, "--gpus-per-node is 0"},
		"too few GPUs":         {[]string{"-f", sample, "--gpus-per-node", "4"}, "a pod has 8 GPUs, and no node has as many: see --gpus-per-node and --topology"},
		"too few nodes at all": {[]string{"-f", sample, "--nodes", "-3"}, `invalid argument "-3" for "--nodes" flag`},
		"parts of seconds":     {[]string{"-f", sample, "--sweep", "hold.seconds=1s..2500ms"}, "has to be FIELD=FROM..TO in whole seconds"},
		"steps out of order":   {[]string{"-f", sample, "--sweep", "rules[everything-else].steps[1].afterSeconds=1s..20m"}, "its steps are not in the order of their times"},
		"no flag":              {[]string{"--foo"}, "unknown flag: --foo"},
		"a folder":             {[]string{"-f", t.TempDir()}, "is a directory"},
		"no rack":              {[]string{"-f", sample, "--nodes-per-rack", "0"}, "--nodes-per-rack is 0"},
		"a negative time":      {[]string{"-f", sample, "--restore", "-1s"}, `"--restore" flag: it must not be negative`},
		"no checkpoints":       {[]string{"-f", sample, "--checkpoint-interval", "0"}, "--checkpoint-interval is 0, and has to be positive"},
		"copies of no tier":    {[]string{"-f", sample, "--copies", "Pod=30s/5s"}, "--copies has Pod, and no job has an entry with this scope in spec.supervisor.checkpointTiers"},
		"copies for all":       {[]string{"-f", sample, "--copies", "Shared=30s/5s"}, `"Shared=30s/5s" has to be Pod=TIME/TIME or Node=TIME/TIME`},
		"copies in no time":    {[]string{"-f", sample, "--copies", "Pod=0s/5s"}, `"Pod=0s/5s": the time between two copies has to be positive`},
		"half of a copy":       {[]string{"-f", sample, "--copies", "Pod=30s/5s,Node=1m"}, `"Node=1m" has to be`},
		"a copy at some time":  {[]string{"-f", sample, "--copies", "Pod=soon/5s"}, `"soon" is no time such as`},
		"no sweep":             {[]string{"-f", sample, "--sweep", "hold.seconds"}, "has to be FIELD=FROM..TO"},
		"a step far away":      {[]string{"-f", sample, "--sweep", "rules[node-may-return].steps[99999999999999999999].afterSeconds=1s..2s"}, "rule node-may-return has 3 steps, and none of index 99999999999999999999"},
		"a sweep of nothing":   {[]string{"-f", sample, "--sweep", "budget.maxRestarts=1s..2s"}, `there is no field "budget.maxRestarts"`},
		"an argument too many": {[]string{"-f", sample, "more"}, "simulate takes no arguments: give a file by -f; of a job of the cluster:\n  kubectl get trainingjob more -o yaml | kubectl lockstep simulate -f -"},
		"a file":               {[]string{sample}, "simulate takes no arguments: give a file by -f"},
		"no repair":            {[]string{"-f", sample, "--repair", "0s"}, "--repair is 0, and has to be positive"},
		"a repair":             {[]string{"-f", sample, "--repair", "soon"}, `"--repair" flag: "soon" is no time such as 90s, 12h or 30d`},
	})
}

func TestFlagsThatWouldBeIgnored(t *testing.T) {
	for flag, others := range idle {
		for _, other := range others {
			value := map[string]string{"copies": "Pod=30s/5s", "nodes": "5", "nodes-per-rack": "5", "plays": "5", "seed": "5", "suggest": "true"}[other]
			_, err := simulate("-f", sample, "--"+flag, sample, "--"+other+"="+cmp.Or(value, "1h"))
			if want := "[" + flag + " " + other + "] are set none of the others can be"; err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("got %v, want %q", err, want)
			}
		}
	}
}

func TestFailureModelsNameWhatIsWrong(t *testing.T) {
	const counted = "source: ours\nnodes: 10\ndays: 10\ncauses:\n"
	model := func(content string) []string { return []string{"-f", sample, "--failures", fileOf(t, content)} }
	cause := func(fields string) []string { return model(counted + "- {" + fields + "}\n") }
	checkMistakes(t, map[string]mistake{
		"no YAML":             {model("causes: [\n"), "line "},
		"an unknown field":    {cause("name: x, failres: 1, effect: ProcessExit"), `unknown field "failres"`},
		"text for a number":   {cause("name: x, failures: many, effect: ProcessExit"), "cannot unmarshal string into Go struct field Counted.causes.failures of type int"},
		"a part of a failure": {cause("name: x, failures: 1.5, effect: ProcessExit"), "cannot unmarshal number 1.5 into Go struct field Counted.causes.failures of type int"},
		"a number for text":   {cause("name: x, failures: 1, effect: NodeLoss, repair: 24"), `cause "x" has repair "24", and it has to be a time such as 24h or 2d`},
		"no list":             {model("causes: {name: x}\n"), "cannot unmarshal object into Go struct field Model.causes"},
		"a list":              {model("- 1\n"), "cannot unmarshal array into Go value of type lab.Model"},
		"no name":             {cause("failures: 1, effect: ProcessExit"), "causes[0].name is empty"},
		"a repair":            {cause("name: x, failures: 1, effect: NodeLoss, repair: soon"), `cause "x" has repair "soon", and it has to be a time such as 24h or 2d`},
		"an unknown scope":    {cause("name: x, failures: 1, effect: NodeLoss, scope: Row, repair: 1h"), `cause "x" has scope "Row", which is neither Node nor HyperNode`},
		"no slowdown":         {cause("name: x, failures: 1, effect: Degradation, repair: 1h"), `cause "x" has slowdown 0: a Degradation needs one`},
		"jobs of no incident": {[]string{"-f", sample, "--failures", sample}, "the jobs remember no incident that tells of a failure"},
		"other objects":       {model("apiVersion: v1\nkind: Node\nmetadata: {name: node-1}\n"), "the jobs remember no incident that tells of a failure: give the TrainingJobs of a cluster"},
		"no kind":             {model("apiVersion: v1\n"), "'Kind' is missing"},
		"a job of other text": {model(job + "spec: {queue: 1}\n"), "TrainingJob a: json: cannot unmarshal number into Go struct field TrainingJobSpec.spec.queue of type string"},
		"counted twice":       {cause("name: x, failures: 1, perThousandNodeDays: 1, effect: ProcessExit"), `cause "x" has failures and perThousandNodeDays: give one`},
		"lemons":              {model("lemons: {nodes: 3, failures: 0.5}\n" + counted + "- {name: x, failures: 1, effect: ProcessExit}\n"), "lemons: 3 of the nodes have 0.5 of the failures"},
		"an unknown model":    {[]string{"-f", sample, "--failures", "gpt"}, `there is neither a failure model nor a file "gpt": give a file, or one of the models b200, llama3, rsc1, rsc2`},
		"an unknown effect":   {cause("name: x, failures: 1, effect: Boom, repair: 1h"), `cause "x" has effect "Boom", which is none of`},
		"no causes":           {model("source: x\n"), "causes is empty"},
		"nobody counted":      {model("causes: [{name: x, failures: 1, effect: ProcessExit}]\n"), "nodes is 0 and days is 0, and both have to be positive"},
	})
}
