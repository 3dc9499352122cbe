// The screen of top: it is drawn again at an interval, until somebody ends it.

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
	topologyv1alpha1 "volcano.sh/apis/pkg/apis/topology/v1alpha1"

	"github.com/lockstep-dev/lockstep/api/v1alpha1"
	"github.com/lockstep-dev/lockstep/cmd/kubectl-lockstep/lines"
	"github.com/lockstep-dev/lockstep/cmd/kubectl-lockstep/top"
)

// watch returns a reader of what is drawn, which is read once and then kept up to date until the context is over.
func (o *topOptions) watch(ctx context.Context, flags *genericclioptions.ConfigFlags, c *cluster) (client.Reader, *trouble, error) {
	klog.SetOutput(io.Discard) // what the watches log would be written across the screen, which tells of their errors itself
	klog.LogToStderr(false)
	ctrllog.SetLogger(klog.Background())
	config, err := flags.ToRESTConfig()
	if err != nil {
		return nil, nil, err
	}
	broken := &trouble{}
	options := cache.Options{
		Scheme: c.watcher.Scheme(), Mapper: c.watcher.RESTMapper(), DefaultTransform: cache.TransformStripManagedFields(), DefaultWatchErrorHandler: broken.note,
	}
	kinds := []client.Object{&v1alpha1.TrainingJob{}}
	if o.nodes {
		kinds = append(kinds, &corev1.Node{}, &topologyv1alpha1.HyperNode{}, &v1alpha1.NodeHealth{})
	}
	if o.namespace != "" {
		options.DefaultNamespaces = map[string]cache.Config{o.namespace: {}}
	}
	watched, err := cache.New(config, options)
	if err != nil {
		return nil, nil, err
	}
	go func() { _ = watched.Start(ctx) }()
	for _, kind := range kinds {
		if _, err := watched.GetInformer(ctx, kind); err != nil {
			return nil, nil, err
		}
	}
	watched.WaitForCacheSync(ctx)
	return watched, broken, nil
}

// trouble is what went wrong last with a watch. It is safe for concurrent use.
type trouble struct {
	mu  sync.Mutex
	err error
	at  time.Time
}

// note keeps an error. That a watch ends, or is too old to go on, is ordinary: the list is read again.
func (t *trouble) note(_ context.Context, _ *toolscache.Reflector, err error) {
	if errors.Is(err, io.EOF) || errors.Is(err, context.Canceled) || apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.err, t.at = err, time.Now()
}

// String says why what is shown may be old; it is empty a minute after the last error, since a watch is tried again within 30 s.
func (t *trouble) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.err == nil || time.Since(t.at) > time.Minute {
		return ""
	}
	return fmt.Sprintf("%s ago, %v", time.Since(t.at).Round(time.Second), explain(t.err, roleExplain))
}

// isTerminal reports whether somebody sits in front of both.
func isTerminal(in io.Reader, out io.Writer) bool {
	for _, side := range []any{in, out} {
		if file, ok := side.(*os.File); !ok || !term.IsTerminal(int(file.Fd())) {
			return false
		}
	}
	return true
}

// What terminals do: see the control sequences of xterm.
const (
	otherScreen = "\x1b[?1049h\x1b[?25l" // without a cursor
	firstScreen = "\x1b[?25h\x1b[?1049l"
	emptyScreen = "\x1b[H\x1b[J"
	ctrlC       = 3
)

// show draws a screen until q or Ctrl-C is pressed, and leaves the terminal as it was.
func show(ctx context.Context, streams genericiooptions.IOStreams, interval time.Duration, draw func(top.Screen) string) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	if file, ok := streams.In.(*os.File); ok {
		before, err := term.MakeRaw(int(file.Fd())) // for keys to come at once
		if err != nil {
			return err
		}
		defer func() { _ = term.Restore(int(file.Fd()), before) }()
	}
	go func() {
		defer stop()
		for key := []byte{0}; key[0] != 'q' && key[0] != 'Q' && key[0] != ctrlC; {
			if _, err := streams.In.Read(key); err != nil {
				return
			}
		}
	}()
	fmt.Fprint(streams.Out, otherScreen)
	defer fmt.Fprint(streams.Out, firstScreen)
	for again := time.Tick(interval); ctx.Err() == nil; {
		fmt.Fprint(streams.Out, emptyScreen+strings.ReplaceAll(draw(sizeOf(streams.Out)), "\n", "\r\n"))
		select {
		case <-ctx.Done():
		case <-again:
		}
	}
	return nil
}

// sizeOf is the size of a terminal, or the usual one where it does not know its own.
func sizeOf(out io.Writer) top.Screen {
	if file, ok := out.(*os.File); ok {
		if width, height, err := term.GetSize(int(file.Fd())); err == nil && width > 0 && height > 0 {
			return top.Screen{Width: width, Height: height}
		}
	}
	return top.Screen{Width: lines.Width, Height: 24}
}
