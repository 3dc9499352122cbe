// Command gains plays jobs of several sizes in the policy lab, under the default policy, with spares, and with whole-job restarts,
// and writes what comes of it into docs/benchmarks.md and docs/gains.svg. The same code gives the same figures.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/lab"
	"github.com/lockstep-dev/lockstep/test/readme"
)

const (
	gpusPerNode  = 8
	nodesPerRack = 32
	// spareShare is how many spares a job has for each of its nodes, and roomShare how many more nodes the cluster has.
	spareShare, roomShare = 0.01, 0.1
	// section is the part of the page that is written.
	section readme.Section = "gains"
)

func main() {
	folder := flag.String("docs", "docs", "folder with benchmarks.md, into which the figures are written")
	days := flag.Int("days", 30, "days of each play")
	plays := flag.Int("plays", 4, "plays of each job")
	flag.Parse()
	if err := run(context.Background(), *folder, *days, *plays, []int{1024, 4096, 16384}); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, folder string, days, plays int, gpus []int) error {
	var all []size
	for _, n := range gpus {
		s, err := playSize(ctx, n, days, plays)
		if err != nil {
			return err
		}
		all = append(all, s)
		fmt.Print(s.lines())
	}
	drawing, err := picture(all, days)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(folder, "gains.svg"), drawing, 0o644); err != nil {
		return err
	}
	return readme.Write(filepath.Join(folder, "benchmarks.md"), map[readme.Section]string{section: page(all, days, plays)})
}

// policies are what is compared, in the order of the columns.
var policies = []struct {
	name string
	of   func(*v1alpha1.TrainingJob, int) *v1alpha1.TrainingJob
}{
	{"default policy", func(j *v1alpha1.TrainingJob, _ int) *v1alpha1.TrainingJob { return j }},
	{"with spares", func(j *v1alpha1.TrainingJob, nodes int) *v1alpha1.TrainingJob {
		j = j.DeepCopy()
		j.Spec.Tasks[0].Spares = new(spares(nodes))
		return j
	}},
	{"whole-job restarts", func(j *v1alpha1.TrainingJob, _ int) *v1alpha1.TrainingJob { return lab.WholeJobRestarts(j) }},
}

func spares(nodes int) int32 { return max(1, int32(spareShare*float64(nodes))) }

// size is a job of so many GPUs, with the plays of each policy.
type size struct {
	gpus    int
	results [][]*lab.Result
}

func playSize(ctx context.Context, gpus, days, plays int) (size, error) {
	model, err := lab.ModelNamed("llama3")
	if err != nil {
		return size{}, err
	}
	causes, err := model.Rates()
	if err != nil {
		return size{}, err
	}
	nodes := gpus / gpusPerNode
	out := size{gpus: gpus}
	for _, p := range policies {
		results, err := lab.PlayMany(ctx, lab.Setup{
			Job: p.of(job(nodes), nodes), HyperNodes: lab.Racks(nodes+int(roomShare*float64(nodes)), nodesPerRack), Causes: causes, For: time.Duration(days) * 24 * time.Hour,
		}, plays, 1)
		if err != nil {
			return out, fmt.Errorf("%d GPUs, %s: %w", gpus, p.name, err)
		}
		out.results = append(out.results, results)
	}
	return out, nil
}

func job(nodes int) *v1alpha1.TrainingJob {
	return &v1alpha1.TrainingJob{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "llama"},
		Spec: v1alpha1.TrainingJobSpec{
			Queue: "default", NetworkTopology: &v1alpha1.NetworkTopology{Mode: v1alpha1.TopologyHard, HighestTierAllowed: new(int32(2))},
			Tasks: []v1alpha1.Task{{
				Name: "worker", Replicas: int32(nodes), Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{RestartPolicy: corev1.RestartPolicyOnFailure}},
			}},
		},
	}
}

func (s *size) ettrs(policy int) []float64 {
	var out []float64
	for _, r := range s.results[policy] {
		out = append(out, r.ETTR)
	}
	return out
}

// down are the GPU-hours that the plays of a policy did not train because some process did not.
func (s *size) down(policy int) []float64 {
	var out []float64
	for _, r := range s.results[policy] {
		out = append(out, r.Down.Hours()*float64(s.gpus))
	}
	return out
}

// lines are those of the table.
func (s *size) lines() string {
	var out strings.Builder
	last := len(policies) - 1
	whole := lab.EstimateOf(s.down(last)).Mean
	for i, p := range policies {
		failures := 0
		for _, r := range s.results[i] {
			for _, n := range r.Failures {
				failures += n
			}
		}
		gain := "-"
		if i != last {
			less := lab.Difference(s.down(i), s.down(last))
			gain = fmt.Sprintf("%+.1f %% ±%.1f", 100*less.Mean/whole, 100*less.Margin/whole)
		}
		fmt.Fprintf(&out, "| %d | %s | %.0f | %s | %.0f | %s |\n", s.gpus, p.name,
			float64(failures)/float64(len(s.results[i])), lab.EstimateOf(s.ettrs(i)), lab.EstimateOf(s.down(i)).Mean, gain)
	}
	return out.String()
}

func page(all []size, days, plays int) string {
	var out strings.Builder
	fmt.Fprintf(&out, "%d days, %d plays of each from seed 1, with the failures of the training of Llama 3 and the default times. ± is half of the 95 %%\n", days, plays)
	fmt.Fprintf(&out, "confidence interval. Nodes have %d GPUs, racks %d nodes. The cluster has %.0f %% more nodes than the job, and the job with spares one\nfor each 100 nodes.\n\n", gpusPerNode, nodesPerRack, 100*roomShare)
	out.WriteString("| GPUs | policy | failures | ETTR | GPU-hours down | against whole-job restarts |\n| ---: | --- | ---: | ---: | ---: | ---: |\n")
	for _, s := range all {
		out.WriteString(s.lines())
	}
	out.WriteString("\n![Time down by number of GPUs and policy](gains.svg)\n")
	return out.String()
}
