// t returns a phrase in the language of the page.
const spanish = {
  "Cancel": "Cancelar",
  "Closed": "Cerrado",
  "Connected": "Conectado",
  "Connecting…": "Conectando…",
  "Copied": "Copiado",
  "Copy": "Copiar",
  "One-time password": "Código de un solo uso",
  "Password": "Contraseña",
  "Save the file": "Guardar el archivo",
  "Sending…": "Enviando…",
  "Sign in": "Iniciar sesión",
  "Sign out": "Cerrar la sesión de",
  "Still signed in": "La sesión sigue abierta",
  "Stopped": "Detenido",
  "The token stays in this page. It is not shown and not stored.": "El token queda en esta página. No se muestra ni se guarda.",
  "User": "Usuario",
};

export const t = (phrase) => (document.documentElement.lang === "es" ? spanish[phrase] : undefined) ?? phrase;
