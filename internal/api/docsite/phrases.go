package docsite

import "maps"

// spanish returns the phrases of the templates in Spanish, by their English text.
func spanish() map[string]string {
	all := spanishClients()
	maps.Copy(all, spanishPages())
	return all
}

// spanishClients returns the phrases of the page about the packages of the clients.
func spanishClients() map[string]string {
	return map[string]string{
		"File":             "Archivo",
		"Files":            "Archivos",
		"Guide":            "Guía",
		"Install a client": "Instalar un cliente",
		"Packages for bots, which this gateway hands out. They log in, reconnect, resume, and check books.":                                                  "Paquetes para bots, que entrega este gateway. Inician sesión, se reconectan, reanudan y verifican los libros.",
		"Node.js before version 22 has no WebSocket: also run npm install ws there. After an update of the gateway, run npm install with the address again.": "Node.js anterior a la versión 22 no tiene WebSocket: ahí, ejecute también npm install ws. Después de actualizar el gateway, ejecute otra vez npm install con la dirección.",
		"Size": "Tamaño",
		"The module has no tag yet. In your own module:":                                      "El módulo todavía no tiene un tag. En su propio módulo:",
		"What needs a registry, and how to turn this off":                                     "Qué necesita un registro, y cómo desactivar esto",
		"pip keeps an installed package of the same version. After an update of the gateway:": "pip conserva un paquete instalado de la misma versión. Después de actualizar el gateway:",
		"pip gets websockets from PyPI. Without PyPI, on Debian:":                             "pip obtiene websockets de PyPI. Sin PyPI, en Debian:",
	}
}

// spanishPages returns the phrases of the other pages.
func spanishPages() map[string]string {
	return map[string]string{
		"A client in ten minutes":                               "Un cliente en diez minutos",
		"A page for each, with programs and a request to send.": "Una página para cada una, con programas y un pedido para enviar.",
		"A warning":                "Una advertencia (Warning)",
		"Administrator's listener": "Puerto de administración",
		"All documents":            "Todos los documentos",
		"All errors":               "Todos los errores",
		"Answers":                  "Respuestas",
		"Body":                     "Cuerpo",
		"Cause":                    "Causa",
		"Channels":                 "Canales",
		"Channels and messages, live in this page.": "Canales y mensajes, en vivo en esta página.",
		"Console":       "Consola",
		"Disconnect":    "Desconectar",
		"Documentation": "Documentación",
		"Each error has a reason: a stable word for programs.": "Cada error tiene un motivo: una palabra estable para programas.",
		"Each reason word with its cause and remedy.":          "Cada motivo con su causa y su solución.",
		"Error with code": "Error con código",
		"Errors":          "Errores",
		"Example":         "Ejemplo",
		"Examples":        "Ejemplos",
		"For version":     "Para la versión",
		"From curl to a program that loses no trade.": "De curl a un programa que no pierde ninguna operación.",
		"HTTP status":                     "Estado HTTP",
		"Meaning":                         "Significado",
		"Member":                          "Miembro",
		"Menu":                            "Menú",
		"Message":                         "Mensaje",
		"Messages":                        "Mensajes",
		"Messages of the client":          "Mensajes del cliente",
		"Messages of the server":          "Mensajes del servidor",
		"Name":                            "Nombre",
		"Needs a token with the scope":    "Necesita un token con el permiso",
		"Needs a token.":                  "Necesita un token.",
		"Needs no token.":                 "No necesita token.",
		"Nothing has all of these words.": "Nada contiene todas estas palabras.",
		"On the administrator's listener, with an operator's token.": "En el puerto de administración, con el token de un operador.",
		"On the stream":            "En el stream",
		"On this page":             "En esta página",
		"Operations":               "Operaciones",
		"Pages":                    "Páginas",
		"Parameters":               "Parámetros",
		"Programs":                 "Programas",
		"REST routes":              "Rutas REST",
		"Reason":                   "Motivo",
		"Reference":                "Referencia",
		"Remedy":                   "Solución",
		"Routes with this error":   "Rutas con este error",
		"Search":                   "Buscar",
		"Search the documentation": "Buscar en la documentación",
		"Send":                     "Enviar",
		"Send it":                  "Enviarlo",
		"Sign in, and the programs have this gateway's address and your token. It is masked here, and complete in what you copy.": "Al iniciar sesión, los programas tienen la dirección de este gateway y su token. " +
			"Acá se muestra oculto; lo que se copia lo tiene completo.",
		"Skip to the content":             "Ir al contenido",
		"Source of this page":             "Fuente de esta página",
		"Stop":                            "Detener",
		"Subscribe to it with the member": "Para suscribirse sirve el miembro",
		"The pages are made of the AsyncAPI document that this gateway serves.": "Las páginas se generan del documento AsyncAPI que sirve este gateway.",
		"The pages are made of the OpenAPI document that this gateway serves.":  "Las páginas se generan del documento OpenAPI que sirve este gateway.",
		"The protocol explains how they work together.":                         "El protocolo explica cómo funcionan en conjunto.",
		"The stream":            "El stream",
		"There is no such page": "Esa página no existe",
		"These routes are served on another address, and need an operator's token.": "Estas rutas se sirven en otra dirección, y necesitan el token de un operador.",
		"This page exists in English only.":                                         "Esta página existe solo en inglés.",
		"Tools":                                                                     "Herramientas",
		"Type":                                                                      "Tipo",
		"Why messages are lost":                                                     "Por qué se pierden mensajes",
		"Words":                                                                     "Palabras",
		"at least %v":                                                               "al menos %v", "at most %v": "como mucho %v", "always %v": "siempre %v",
		"default %v":          "si falta, %v",
		"one of %v":           "uno de %v",
		"up to %v characters": "hasta %v caracteres", "up to %v items": "hasta %v elementos",
		"required":                  "obligatorio",
		"the connection stays open": "la conexión sigue abierta",
		"then close code":           "después, código de cierre",
	}
}
