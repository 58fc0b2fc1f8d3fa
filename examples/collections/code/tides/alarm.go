// Package tides warns the archive before the harbour floods its cellar.
package tides

import "time"

// Mark is a height of the harbour's gauge, in centimetres.
type Mark int

// Sill is the height at which water enters the cellar door.
const Sill Mark = 412

// Alarm says when to close the flood gate of the cellar: two hours before the tide reaches the sill, or never.
func Alarm(high time.Time, height Mark) (time.Time, bool) {
	if height < Sill {
		return time.Time{}, false
	}
	return high.Add(-2 * time.Hour), true
}

// Surge adds what an onshore wind piles up to a predicted height, a centimetre for each knot above twenty.
func (m Mark) Surge(knots int) Mark {
	return m + Mark(max(0, knots-20))
}
