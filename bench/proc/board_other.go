//go:build !linux

package proc

import "errors"

func MakeBoard(string) error           { return errors.ErrUnsupported }
func OpenBoard(string) (*Board, error) { return nil, errors.ErrUnsupported }
