// The screen of top: it is drawn again at an interval, until somebody ends it.

package main

import (
	"context"
	"errors"
	"io"
	"strings"
	"time"

	tea "github.com/charmbracelet/bubbletea"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/klog/v2"

	"github.com/lockstep-dev/lockstep/cmd/kubectl-lockstep/lines"
	"github.com/lockstep-dev/lockstep/cmd/kubectl-lockstep/livelist"
	"github.com/lockstep-dev/lockstep/cmd/kubectl-lockstep/top"
)

// live watches, and draws until q or Ctrl-C is pressed.
func (o *topOptions) live(ctx context.Context, streams genericiooptions.IOStreams, c *cluster) error {
	ctx, stop := context.WithCancel(ctx)
	feed := livelist.New(c.watcher)
	defer feed.Wait()
	defer stop()
	klog.SetOutput(io.Discard) // what the watches log would be written across the screen, which tells of their errors itself
	klog.LogToStderr(false)
	draw, err := o.watched(ctx, c, feed)
	if err != nil {
		return err
	}
	return show(ctx, streams, &screen{draw: draw, interval: o.interval, size: top.Screen{Width: lines.Width, Height: 24}})
}

// show draws a screen until it is ended, and leaves the terminal as it was.
func show(ctx context.Context, streams genericiooptions.IOStreams, s *screen) error {
	_, err := tea.NewProgram(s, tea.WithContext(ctx), tea.WithInput(streams.In), tea.WithOutput(streams.Out), tea.WithAltScreen(), tea.WithoutSignalHandler()).Run()
	if ctx.Err() == nil && !errors.Is(err, tea.ErrInterrupted) {
		return err
	}
	return nil // somebody ended it
}

// screen is what bubbletea runs.
type screen struct {
	draw     drawing
	interval time.Duration
	size     top.Screen
	text     string
}

// due says that the screen is to be drawn again.
type due struct{}

func (s *screen) later() tea.Cmd {
	return tea.Tick(s.interval, func(time.Time) tea.Msg { return due{} })
}

// Init implements tea.Model.
func (s *screen) Init() tea.Cmd {
	s.text = s.draw(s.size)
	return s.later()
}

// Update implements tea.Model.
func (s *screen) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.KeyMsg:
		switch msg.String() {
		case "q", "Q", "ctrl+c":
			return s, tea.Quit
		}
	case tea.WindowSizeMsg:
		if msg.Width > 0 && msg.Height > 0 { // a terminal need not know its size
			s.size = top.Screen{Width: msg.Width, Height: msg.Height}
		}
		s.text = s.draw(s.size)
	case due:
		s.text = s.draw(s.size)
		return s, s.later()
	}
	return s, nil
}

// View implements tea.Model.
func (s *screen) View() string { return strings.TrimSuffix(s.text, "\n") }
