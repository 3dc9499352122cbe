//go:build linux

// The services of a machine: started in order, started again when they end, their logs kept.

package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lockstep-dev/lockstep/test/machines/boot"
)

// logs is where the services' output goes; the host binds a folder there.
const logs = "/var/log"

// services are the running ones, by process id.
type services struct {
	mu      sync.Mutex
	running map[int]boot.Service
}

// supervise starts the services and reaps every process of the machine that has lost its parent. It
// returns when the machine is told to shut down; the kernel then ends the other processes.
func supervise(all []boot.Service) error {
	s := &services{running: map[int]boot.Service{}}
	down := make(chan os.Signal, 1)
	signal.Notify(down, unix.SIGTERM, unix.SIGINT)
	failed := make(chan error, 1)
	go func() {
		for _, service := range all {
			if err := s.start(service); err != nil {
				failed <- err
				return
			}
			awaitSocket(service.Socket)
		}
	}()
	go s.reap(failed)
	select {
	case <-down:
		return nil
	case err := <-failed:
		return err
	}
}

func (s *services) start(service boot.Service) error {
	log, err := os.OpenFile(filepath.Join(logs, service.Name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("opening the log of %s: %w", service.Name, err)
	}
	defer log.Close()
	command := exec.Command(service.Path, service.Args...)
	command.Stdout, command.Stderr = log, log
	// The lock keeps reap from seeing the end of a process that is not known yet.
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := command.Start(); err != nil {
		return fmt.Errorf("starting %s: %w", service.Name, err)
	}
	s.running[command.Process.Pid] = service
	return nil
}

// reap waits for every child, also those that were orphaned, such as containerd's shims.
func (s *services) reap(failed chan<- error) {
	for {
		pid, err := unix.Wait4(-1, nil, 0, nil)
		if errors.Is(err, unix.ECHILD) {
			time.Sleep(10 * time.Millisecond) // No service has been started yet.
			continue
		}
		s.mu.Lock()
		service, isService := s.running[pid]
		delete(s.running, pid)
		s.mu.Unlock()
		if !isService {
			continue
		}
		time.AfterFunc(boot.RestartDelay, func() {
			if err := s.start(service); err != nil {
				failed <- err
			}
		})
	}
}

func awaitSocket(path string) {
	for path != "" {
		if connection, err := net.Dial("unix", path); err == nil {
			connection.Close()
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
}
