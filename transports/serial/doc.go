// Package serial is what protocols have in common that carry one exchange after the
// other on a byte stream, HTTP/1 and HTTP over ZAP.
package serial
