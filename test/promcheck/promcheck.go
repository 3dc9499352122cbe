// Package promcheck compares PromQL with the metrics that there are: every name, and every label that an expression selects, groups or
// joins by. Prometheus takes an expression with a name that nothing exports, and answers nothing.
package promcheck

import (
	"fmt"
	"maps"
	"regexp"
	"slices"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/promql/parser"
)

// Labels are the labels that the series of a metric, or of an expression, may have.
type Labels map[string]bool

// Of is the set of some labels.
func Of(names ...string) Labels {
	l := Labels{}
	for _, name := range names {
		l[name] = true
	}
	return l
}

func (l Labels) with(names ...string) Labels {
	out := maps.Clone(l)
	for _, name := range names {
		out[name] = true
	}
	return out
}

func (l Labels) without(names ...string) Labels {
	out := maps.Clone(l)
	for _, name := range names {
		delete(out, name)
	}
	return out
}

func (l Labels) missing(names []string, where string) error {
	for _, name := range names {
		if !l[name] {
			return fmt.Errorf("%s: no label %q; there are %q", where, name, slices.Sorted(maps.Keys(l)))
		}
	}
	return nil
}

// Metrics are those that there are, with their labels.
type Metrics map[string]Labels

// Check parses an expression and returns the labels that its series may have. An error names what does not exist.
func (m Metrics) Check(expr string) (Labels, error) {
	parsed, err := parser.ParseExpr(expr)
	if err != nil {
		return nil, err
	}
	return m.labelsOf(parsed)
}

func (m Metrics) labelsOf(expr parser.Expr) (Labels, error) {
	switch e := expr.(type) {
	case *parser.VectorSelector:
		return m.selected(e)
	case *parser.MatrixSelector:
		return m.labelsOf(e.VectorSelector)
	case *parser.SubqueryExpr:
		return m.labelsOf(e.Expr)
	case *parser.ParenExpr:
		return m.labelsOf(e.Expr)
	case *parser.UnaryExpr:
		return m.labelsOf(e.Expr)
	case *parser.AggregateExpr:
		return m.aggregated(e)
	case *parser.Call:
		return m.called(e)
	case *parser.BinaryExpr:
		return m.joined(e)
	case *parser.NumberLiteral, *parser.StringLiteral:
		return Labels{}, nil
	}
	return nil, fmt.Errorf("%s: an expression of type %T, which promcheck does not know: teach it", expr, expr)
}

func (m Metrics) selected(e *parser.VectorSelector) (Labels, error) {
	known, exists := m[e.Name]
	if !exists {
		return nil, fmt.Errorf("%s: nothing exports the metric %q", e, e.Name)
	}
	for _, matcher := range e.LabelMatchers {
		if matcher.Name == model.MetricNameLabel {
			continue
		}
		if err := known.missing([]string{matcher.Name}, e.String()); err != nil {
			return nil, err
		}
	}
	return known, nil
}

func (m Metrics) aggregated(e *parser.AggregateExpr) (Labels, error) {
	inner, err := m.labelsOf(e.Expr)
	if err != nil {
		return nil, err
	}
	if err := inner.missing(e.Grouping, e.String()); err != nil {
		return nil, err
	}
	switch {
	case e.Op == parser.TOPK || e.Op == parser.BOTTOMK:
		return inner, nil
	case e.Without:
		inner = inner.without(e.Grouping...)
	default:
		inner = Of(e.Grouping...)
	}
	if e.Op == parser.COUNT_VALUES {
		inner = inner.with(e.Param.(*parser.StringLiteral).Val)
	}
	return inner, nil
}

func (m Metrics) called(e *parser.Call) (Labels, error) {
	out := Labels{}
	for _, arg := range e.Args {
		if kind := arg.Type(); kind != parser.ValueTypeVector && kind != parser.ValueTypeMatrix {
			continue
		}
		inner, err := m.labelsOf(arg)
		if err != nil {
			return nil, err
		}
		out = out.with(slices.Collect(maps.Keys(inner))...)
	}
	if e.Func.Name == "histogram_quantile" {
		return out.without("le"), out.missing([]string{"le"}, e.String())
	}
	return out, nil
}

func (m Metrics) joined(e *parser.BinaryExpr) (Labels, error) {
	left, err := m.labelsOf(e.LHS)
	if err != nil {
		return nil, err
	}
	right, err := m.labelsOf(e.RHS)
	if err != nil {
		return nil, err
	}
	matching := e.VectorMatching
	if matching == nil { // one side is a scalar
		return left.with(slices.Collect(maps.Keys(right))...), nil
	}
	if err := matched(e, left, right); err != nil {
		return nil, err
	}
	switch {
	case e.Op == parser.LOR:
		return left.with(slices.Collect(maps.Keys(right))...), nil
	case matching.Card == parser.CardOneToMany:
		return right.with(matching.Include...), nil
	case matching.Card == parser.CardOneToOne && matching.On:
		return Of(matching.MatchingLabels...), nil
	case matching.Card == parser.CardOneToOne:
		return left.without(matching.MatchingLabels...), nil
	}
	return left.with(matching.Include...), nil
}

// matched checks that both sides have the labels that they are matched on, and that one has those that are ignored.
func matched(e *parser.BinaryExpr, left, right Labels) error {
	if e.VectorMatching.On {
		if err := left.missing(e.VectorMatching.MatchingLabels, e.LHS.String()); err != nil {
			return err
		}
		return right.missing(e.VectorMatching.MatchingLabels, e.RHS.String())
	}
	return left.with(slices.Collect(maps.Keys(right))...).missing(e.VectorMatching.MatchingLabels, e.String())
}

var templated = regexp.MustCompile(`\$labels\.(\w+)|\{\{\s*(\w+)\s*\}\}`)

// CheckText finds labels that a text names and its series do not have: {{ $labels.x }} of an alert, {{x}} of a legend.
func (l Labels) CheckText(text string) error {
	for _, found := range templated.FindAllStringSubmatch(text, -1) {
		if err := l.missing([]string{found[1] + found[2]}, text); err != nil {
			return err
		}
	}
	return nil
}
