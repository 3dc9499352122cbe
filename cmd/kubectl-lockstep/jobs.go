package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/resource"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

var errNoName = errors.New("the name of a TrainingJob is missing: `kubectl get trainingjobs` lists them")

// jobs reads TrainingJobs: by name from a cluster, or from files.
type jobs struct {
	config *genericclioptions.ConfigFlags
	files  []string
	// at is the time of the API server when it was read; zero for files.
	at time.Time
}

func (j *jobs) addFlags(c *cobra.Command) {
	c.Flags().StringSliceVarP(&j.files, "filename", "f", nil, "files with TrainingJobs, in place of those of a cluster; - for standard input")
}

// get reads the jobs of these names, or all of the files.
func (j *jobs) get(ctx context.Context, names []string) ([]*v1alpha1.TrainingJob, error) {
	switch {
	case len(j.files) > 0 && len(names) > 0:
		return nil, errors.New("give either names or -f, which may be repeated")
	case len(j.files) > 0:
		return j.fromFiles()
	case len(names) == 0:
		return nil, errNoName
	}
	cluster, err := newCluster(j.config)
	if err != nil {
		return nil, err
	}
	found, err := cluster.jobs(ctx, names, false, nil)
	var out []*v1alpha1.TrainingJob
	for i := range found {
		out = append(out, &found[i])
	}
	j.at = cluster.clock.Now()
	return out, err
}

func (j *jobs) fromFiles() ([]*v1alpha1.TrainingJob, error) {
	scheme := newScheme()
	infos, err := resource.NewBuilder(j.config).WithScheme(scheme, scheme.PrioritizedVersionsAllGroups()...).ContinueOnError().Flatten().
		Local().FilenameParam(false, &resource.FilenameOptions{Filenames: j.files}).Do().Infos()
	if err != nil {
		return nil, err
	}
	var out []*v1alpha1.TrainingJob
	for _, info := range infos {
		job, ok := info.Object.(*v1alpha1.TrainingJob)
		if !ok {
			return nil, fmt.Errorf("%s is no TrainingJob", strings.TrimSpace(info.ObjectName()))
		}
		out = append(out, job)
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("there is no TrainingJob in %s", strings.Join(j.files, ", "))
	}
	return out, nil
}
