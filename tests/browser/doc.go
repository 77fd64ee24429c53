// Package browser tests the console in Chromium, with real clicks and keys, against rueda dev. It is
// a separate module, so that the driver of the browser is not a dependency of the product.
//
// With RUEDA_PICTURES set to a folder, the tests also write pictures of the pages there. The pictures
// in docs were made in this way by TestPictures. RUEDA_PROGRAM names a program rueda that exists, so
// that the tests build none. With RUEDA_SCREENS set to a folder, the tests TestScreens write pictures
// of every page there, in both languages and themes, wide and narrow: make screens.
package browser
