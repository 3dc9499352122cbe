package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/resource"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
)

var errNoName = errors.New("the name of a TrainingJob is missing: `kubectl get trainingjobs` lists them")

// jobs reads TrainingJobs: by name from a cluster, or from files.
type jobs struct {
	config *genericclioptions.ConfigFlags
	files  []string
}

// addFlags adds the flags of kubectl that say which cluster and namespace, and -f.
func (j *jobs) addFlags(c *cobra.Command) {
	j.config = genericclioptions.NewConfigFlags(true)
	j.config.AddFlags(c.Flags())
	c.Flags().StringSliceVarP(&j.files, "filename", "f", nil, "files with TrainingJobs, in place of those of a cluster; - for standard input")
}

// get reads the jobs of these names, or all of the files.
func (j *jobs) get(names []string) ([]*v1alpha1.TrainingJob, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, v1alpha1.AddToScheme} { // a List is of the core
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	builder := resource.NewBuilder(j.config).WithScheme(scheme, corev1.SchemeGroupVersion, v1alpha1.GroupVersion).ContinueOnError().Flatten()
	switch {
	case len(j.files) > 0 && len(names) > 0:
		return nil, errors.New("give either names or -f, which may be repeated")
	case len(j.files) > 0:
		builder = builder.Local().FilenameParam(false, &resource.FilenameOptions{Filenames: j.files})
	case len(names) == 0:
		return nil, errNoName
	default:
		namespace, _, err := j.config.ToRawKubeConfigLoader().Namespace()
		if err != nil {
			return nil, err
		}
		builder = builder.NamespaceParam(namespace).DefaultNamespace().ResourceNames("trainingjobs.lockstep.dev", names...)
	}
	infos, err := builder.Do().Infos()
	if err != nil {
		return nil, err
	}
	var out []*v1alpha1.TrainingJob
	for _, info := range infos {
		job, ok := info.Object.(*v1alpha1.TrainingJob)
		if !ok {
			return nil, fmt.Errorf("%s is no TrainingJob", info.ObjectName())
		}
		out = append(out, job)
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("there is no TrainingJob in %s", strings.Join(j.files, ", "))
	}
	return out, nil
}
