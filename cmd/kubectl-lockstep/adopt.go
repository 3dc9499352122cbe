package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/cli-runtime/pkg/resource"
	"sigs.k8s.io/yaml"

	"github.com/lockstep-dev/lockstep/cmd/kubectl-lockstep/adopt"
	"github.com/lockstep-dev/lockstep/cmd/kubectl-lockstep/lines"
	"github.com/lockstep-dev/lockstep/cmd/kubectl-lockstep/simulate"
)

func newAdopt(streams genericiooptions.IOStreams) *cobra.Command {
	var files resource.FilenameOptions
	c := &cobra.Command{
		Use:   "adopt -f FILE",
		Short: "Turn jobs of Volcano, JobSet and Kubeflow into TrainingJobs",
		Long: `Turn Volcano Jobs, JobSets, PyTorchJobs and TrainJobs into TrainingJobs, and print these. What a TrainingJob cannot
say, and what in a program may not work as it did, is listed on the standard error, with the field and the reason.

A TrainJob needs its runtime among the files. No cluster is read or changed. Each TrainingJob is checked as the API server
does it. The exit code is 1 where a job could not be turned into one: the others are printed all the same.`,
		Example: `  # What a PyTorchJob becomes, and what it loses
  kubectl lockstep adopt -f pytorchjob.yaml

  # A TrainJob with its runtime, as a file to edit and apply
  kubectl lockstep adopt -f trainjob.yaml -f runtime.yaml > job.yaml`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if len(files.Filenames) == 0 {
				return errors.New("the file is missing: give -f FILE, or -f - for the standard input")
			}
			objects, err := readObjects(streams.In, files)
			if err != nil && len(objects) == 0 {
				return err
			}
			return errors.Join(err, adoptAll(streams, objects))
		},
	}
	c.Flags().StringSliceVarP(&files.Filenames, "filename", "f", nil, "a file, folder or URL with the jobs and the runtimes of TrainJobs, or -; may be repeated")
	c.Flags().BoolVarP(&files.Recursive, "recursive", "R", false, "read the folders in a folder, too")
	return c
}

// readObjects reads files as kubectl does.
func readObjects(stdin io.Reader, files resource.FilenameOptions) (out []*unstructured.Unstructured, err error) {
	b := resource.NewLocalBuilder().Unstructured().ContinueOnError().Flatten()
	if slices.Contains(files.Filenames, "-") {
		b.Stream(stdin, "the standard input")
		files.Filenames = slices.DeleteFunc(slices.Clone(files.Filenames), func(name string) bool { return name == "-" })
	}
	infos, err := b.FilenameParam(false, &files).Do().Infos()
	for _, info := range infos {
		if o, ok := info.Object.(*unstructured.Unstructured); ok {
			out = append(out, o)
		}
	}
	return out, err
}

func adoptAll(streams genericiooptions.IOStreams, objects []*unstructured.Unstructured) error {
	jobs, others := adopt.Jobs(objects)
	for _, other := range others {
		fmt.Fprintf(streams.ErrOut, "%s is left out: it is no Volcano Job, JobSet, PyTorchJob or TrainJob\n", other)
	}
	if len(jobs) == 0 {
		return errors.New("there is no Volcano Job, JobSet, PyTorchJob or TrainJob among the objects")
	}
	var errs []error
	printed := false
	for _, job := range jobs {
		raw, err := manifest(job)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", job.From, err))
			continue
		}
		if printed {
			fmt.Fprintln(streams.Out, "---")
		}
		printed = true
		if _, err := streams.Out.Write(raw); err != nil {
			return err
		}
		printLost(streams.ErrOut, job)
	}
	return errors.Join(errs...)
}

// manifest is the TrainingJob as a file, if the API server would take it.
func manifest(job adopt.Adopted) ([]byte, error) {
	if job.Err != nil {
		return nil, job.Err
	}
	if _, err := simulate.Admit(job.Job); err != nil {
		return nil, fmt.Errorf("its TrainingJob would be refused: %w", err)
	}
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(job.Job)
	if err != nil {
		return nil, err
	}
	delete(object, "status")
	return yaml.Marshal(prune(object))
}

func printLost(out io.Writer, job adopt.Adopted) {
	if len(job.Lost) == 0 {
		fmt.Fprintf(out, "%s: all of it was carried over\n", job.From)
		return
	}
	fmt.Fprintf(out, "%s:\n", job.From)
	for _, text := range job.Lost {
		fmt.Fprintf(out, "  - %s\n", strings.Join(lines.Wrap(text, lines.Width-4), "\n    "))
	}
}

// prune takes out what only the types write: null, and empty objects such as resources: {}.
func prune(value any) any {
	switch v := value.(type) {
	case map[string]any:
		for key, inner := range v {
			m, isMap := prune(inner).(map[string]any)
			if inner == nil || isMap && len(m) == 0 && slices.Contains([]string{"metadata", "resources"}, key) {
				delete(v, key)
			}
		}
	case []any:
		for _, inner := range v {
			prune(inner)
		}
	}
	return value
}
