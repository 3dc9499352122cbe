// The engine of a binary without DCGM.

//go:build !linux || !cgo || nodcgm

package dcgm

import (
	"errors"
	"time"

	"github.com/lockstep-dev/lockstep/health"
)

// Built reports whether a binary can reach DCGM.
const Built = false

var errNotBuilt = errors.New("this binary was built without DCGM: that needs linux, cgo, and no tag nodcgm")

// noEngine never opens, so nothing else of it is ever called.
type noEngine struct{}

func newEngine() engine { return noEngine{} }

func (noEngine) open(string, Address) error                { return errNotBuilt }
func (noEngine) close() error                              { return nil }
func (noEngine) version() (string, error)                  { return "", errNotBuilt }
func (noEngine) entities(level) ([]uint, error)            { return nil, errNotBuilt }
func (noEngine) status(uint) int64                         { return 0 }
func (noEngine) levelOf(health.Field) (level, bool)        { return 0, false }
func (noEngine) group([]entity) (uintptr, []entity, error) { return 0, nil, errNotBuilt }
func (noEngine) links() ([]link, error)                    { return nil, errNotBuilt }
func (noEngine) checkLinks(uintptr) error                  { return errNotBuilt }
func (noEngine) unwatch(watch) error                       { return errNotBuilt }
func (noEngine) downLinks(uintptr) ([]link, error)         { return nil, errNotBuilt }
func (noEngine) since(watch, time.Time) ([]reading, time.Time, error) {
	return nil, time.Time{}, errNotBuilt
}
func (noEngine) watch(uintptr, []health.Field, time.Duration, time.Duration) (watch, error) {
	return watch{}, errNotBuilt
}
